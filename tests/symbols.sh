#!/bin/sh
# symbols.sh LIBRARY.a: what the library asks of the C library at the border with the process. Three
# kinds of functions may be called only where tests/symbols.txt says so, and why that does no harm:
# - those whose result depends on the locale (runtime/base/text.h has ours);
# - those in which a cancelled thread may end, by POSIX's two lists, and what is near them
#   (runtime/base/uncancelled.h);
# - those that change something of the whole process, or of the calling thread's signals.
# An entry that nobody needs any more fails too, but for one with a question mark, which some builds
# need.
set -eu
lib=$1 here=$(dirname "$0")
locale='printf fprintf dprintf sprintf snprintf asprintf vprintf vfprintf vdprintf vsprintf
vsnprintf vasprintf scanf fscanf sscanf vscanf vfscanf vsscanf strtod strtof strtold strtol
strtoul strtoll strtoull strtoimax strtoumax strtod_l strtof_l strtold_l strtol_l strtoul_l atof
atoi atol atoll isalpha isalnum isblank iscntrl isdigit isgraph islower isprint ispunct isspace
isupper isxdigit tolower toupper ctype_b_loc ctype_tolower_loc ctype_toupper_loc strcasecmp
strncasecmp strcasestr strcoll strxfrm strerror strerror_r strerror_l perror dlerror strsignal
psignal strftime strptime localeconv nl_langinfo newlocale uselocale duplocale freelocale mbtowc
wctomb mblen mbstowcs wcstombs mbrtowc wcrtomb mbrlen mbsrtowcs wcsrtombs regcomp regexec fnmatch
glob wordexp getopt getopt_long alphasort scandir err errx warn warnx error gettext dcgettext
ngettext gai_strerror'
cancel='accept accept4 access aio_suspend asctime chmod chown clock_nanosleep close closedir
close_range connect copy_file_range creat ctime dlclose dlopen dlsym dup2 epoll_pwait epoll_wait
faccessat fallocate fchmod fchmodat fchown fclose fcntl fdatasync fdopen fdopendir fflush fgetc
fgetpos fgets fgetwc fileno flock fmemopen fopen fopenat fork fpathconf fputc fputs fputwc fread
freopen fscanf fseek fseeko fsetpos fstat fstatat fstatfs fstatvfs fsync ftell ftello ftruncate
ftw futimens fwrite getaddrinfo getc getchar getcwd getdelim getgrgid getgrnam gethostbyname
getline getmntent getnameinfo getpwnam getpwuid getrandom gets getservbyname iconv
inotify_add_watch ioctl link linkat lio_listio localtime lockf lseek lstat mkdir mkdirat mkdtemp
mkfifo mknod mkostemp mkstemp mq_receive mq_send msgrcv msgsnd msync nanosleep nftw open openat
opendir open_memstream pathconf pause pclose poll popen posix_fadvise posix_fallocate posix_spawn
posix_spawnp ppoll pread preadv preadv2 pselect pthread_cond_clockwait pthread_cond_timedwait
pthread_cond_wait pthread_join pthread_rwlock_rdlock pthread_rwlock_wrlock
pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock pthread_testcancel pthread_tryjoin_np
pthread_timedjoin_np putc putchar puts pwrite pwritev pwritev2 read readdir readlink readlinkat
readv realpath recv recvfrom recvmmsg recvmsg remove rename renameat renameat2 rewind rewinddir
rmdir scandir seekdir select sem_clockwait sem_timedwait sem_wait semop send sendfile sendmmsg
sendmsg sendto sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice stat statfs
statvfs statx symlink symlinkat sync sync_file_range sync syslog system tcdrain tee tmpfile tmpnam
truncate ttyname unlink unlinkat ungetc usleep utime utimensat utimes vmsplice wait wait3 wait4
waitid waitpid write writev backtrace stderr stdin stdout GC_gcollect GC_malloc GC_malloc_atomic
GC_malloc_uncollectable GC_do_blocking GC_get_stack_base GC_init GC_invoke_finalizers
GC_register_my_thread GC_expand_hp dwfl_begin dwfl_linux_proc_report dwfl_report_end dwfl_end
dwfl_addrmodule dwfl_module_getsrc dwfl_module_addrdie dwfl_module_addrname dwfl_module_getdwarf'
process='abort atexit chdir chroot clearenv daemon environ exit _exit _Exit fchdir kill on_exit
prctl pthread_atfork pthread_cancel pthread_exit pthread_kill pthread_setcanceltype
pthread_sigmask putenv quick_exit raise setenv setitimer setlocale setrlimit setuid setgid
sigaction sigaltstack siginterrupt signal sigprocmask sigqueue srand srandom timer_create umask
unsetenv alarm sched_setaffinity sched_setscheduler nice setpriority getenv'

nm -A -u "$lib" 2>/dev/null |
    awk -v watched="$locale $cancel $process" -v allowed="$here/symbols.txt" '
BEGIN {
    n = split(watched, list)
    for (i = 1; i <= n; i++) watch[list[i]] = 1
    while ((getline line < allowed) > 0) {
        if (line ~ /^(#|$)/) continue
        split(line, part)
        symbol = part[2]
        sub(/:$/, "", symbol)
        optional = sub(/\?$/, "", symbol)
        may[part[1] " " symbol] = optional ? "maybe" : part[1]
    }
}
{
    file = $1
    sub(/:$/, "", file); sub(/.*[:\/]/, "", file); sub(/\.o$/, "", file)
    symbol = $NF
    sub(/@.*/, "", symbol); sub(/^__isoc[0-9]*_/, "", symbol)
    if (symbol ~ /^__.*_chk$/) { sub(/^__/, "", symbol); sub(/_chk$/, "", symbol) } # fortified
    sub(/^__ctype/, "ctype", symbol); sub(/64$/, "", symbol)
    seen++
    there[file] = 1
    if (!(symbol in watch)) next
    key = file " " symbol
    if (key in may) { used[key] = 1; next }
    if (!(key in told)) { print "calls what it may not: " key; bad = 1 }
    told[key] = 1
}
END {
    if (seen < 1000) { print "the library shows only " seen " symbols: is it one?"; bad = 1 }
    for (key in may)
        if (!(key in used) && may[key] in there) { print "needs no entry any more: " key; bad = 1 }
    exit bad
}'
