/* repro_5: sizes are read by the process's locale: LC_NUMERIC=de_DE makes "1.5GiB" not understood
** (and "1,5GiB" understood) */
#include <tide/tide.h>
#include <locale.h>
#include <stdio.h>
int main(void) {
    tide_runtime *rt;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "1.5GiB",
                     .limit = "50.5%",
                     .collector = "refcount"};
    tide_status s = tide_open(&c, &rt);
    printf("C: %s\n", tide_status_name(s));
    if (!s) tide_close(rt);
    printf("locale %s\n", setlocale(LC_NUMERIC, "de_DE.UTF-8"));
    s = tide_open(&c, &rt);
    printf("de_DE: %s %s\n", tide_status_name(s), s ? tide_error_last()->message : "");
    if (!s) tide_close(rt);
}
