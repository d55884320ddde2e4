/* Preloaded into a node, which then counts as many cores as CH_S3_CORES says. ClickHouse asks sysconf; from 32 cores on,
   it also reads /proc/cpuinfo, to leave hyperthreads out, and believes sysconf if it finds nothing there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long sysconf(int name) {
    static long (*original)(int);
    const char *cores = getenv("CH_S3_CORES");
    if (cores && (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF)) return atol(cores);
    if (!original) original = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return original(name);
}

int get_nprocs(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

static const char *readable(const char *path) {
    return getenv("CH_S3_CORES") && !strcmp(path, "/proc/cpuinfo") ? "/dev/null" : path;
}

FILE *fopen(const char *path, const char *mode) {
    static FILE *(*original)(const char *, const char *);
    if (!original) original = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return original(readable(path), mode);
}

FILE *fopen64(const char *path, const char *mode) {
    static FILE *(*original)(const char *, const char *);
    if (!original) original = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen64");
    return original(readable(path), mode);
}
