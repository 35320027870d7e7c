/* repro_9: struct_size inside a field copies half of a pointer, which is then followed */
#include <tide/tide.h>
#include <stdio.h>
#include <stddef.h>
int main(void) {
    tide_runtime *rt;
    tide_config c = {
        .struct_size = offsetof(tide_config, limit) + 4, .device = "host", .limit = "64MiB"};
    printf("%s\n", tide_status_name(tide_open(&c, &rt)));
}
