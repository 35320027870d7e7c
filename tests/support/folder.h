/* folder.h: a folder of a case's own, and its end. */
#ifndef TIDETEST_FOLDER_H
#define TIDETEST_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Removes the folder and the files that lie in it. */
static inline void remove_folder(const char *folder) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlink(path);
    }
    if (d) closedir(d);
    rmdir(folder);
}

#endif
