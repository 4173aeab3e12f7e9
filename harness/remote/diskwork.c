/*
 * Gives one process a slow, full, failing or read-only disk, without affecting the machine's.
 *
 * Preloaded into a dynamically linked program (glibc), this library intercepts operations on files
 * below the directory that KRAFTWRECK_DISK_FILES names, and applies the fault in the file that
 * KRAFTWRECK_DISK names. No other file and no other process is affected. Without the variables or
 * the file it changes nothing.
 *
 * The writer (harness/on_host/disk.py) changes the file in place, `kind` last, and reads the
 * counters of effects there. A fault outlives the process: it also affects the next one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define MOST_FILES 65536

enum kind { WELL, SLOW, FULL, FAILING, READ_ONLY };
enum operation { WRITE, FSYNC, READ };

struct trouble {
    _Atomic int64_t kind;
    _Atomic int64_t factor;    /* slow: how many times longer an fsync takes */
    _Atomic int64_t least;     /* slow: least ns that one takes by itself */
    _Atomic int64_t most;      /* slow: most ns that one takes */
    _Atomic int64_t space;     /* full: bytes that can still be written */
    _Atomic int64_t operation; /* failing: the operation that fails */
    _Atomic int64_t after;     /* failing: how many of them succeed first */
    _Atomic int64_t refused_calls, refused_bytes, fsyncs, slowest;
};

static struct trouble *trouble;
static const char *files;
static size_t files_length;
static _Atomic unsigned char ours[MOST_FILES]; /* by descriptor: whether it is one of `files` */

/* What the C library calls by this name. */
#define REAL(name)                                                                                 \
    __extension__({                                                                                \
        static __typeof__(&name) known;                                                            \
        if (known == NULL)                                                                         \
            known = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                    \
        known;                                                                                     \
    })

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("KRAFTWRECK_DISK");
    struct stat status;
    files = getenv("KRAFTWRECK_DISK_FILES");
    if (path == NULL || files == NULL)
        return;
    files_length = strlen(files);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0)
        return;
    if (fstat(file, &status) == 0 && status.st_size >= (off_t)sizeof(struct trouble)) {
        void *map = mmap(NULL, sizeof(struct trouble), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (map != MAP_FAILED)
            trouble = map;
    }
    syscall(SYS_close, file);
}

/* --- which operations are affected, and how --------------------------------------------------------------- */

static int is_ours(const char *path)
{
    return trouble != NULL && path != NULL && strncmp(path, files, files_length) == 0 &&
           (path[files_length] == '/' || path[files_length] == '\0');
}

static int64_t kind_for(int file)
{
    if (trouble == NULL || file < 0 || file >= MOST_FILES || !ours[file])
        return WELL;
    return trouble->kind;
}

static int refuse(int error, int64_t bytes)
{
    trouble->refused_calls++;
    trouble->refused_bytes += bytes;
    errno = error;
    return -1;
}

/* Whether `operation` fails now; it is one of those that count. */
static int fails(enum operation operation)
{
    if (trouble->operation != operation)
        return 0;
    return atomic_fetch_sub(&trouble->after, 1) <= 0;
}

/* How many of `size` bytes may be written to `file`; -1 with errno for none. */
static ssize_t allowed(int file, size_t size)
{
    switch (kind_for(file)) {
    case READ_ONLY:
        return refuse(EROFS, (int64_t)size);
    case FAILING:
        return fails(WRITE) ? refuse(EIO, (int64_t)size) : (ssize_t)size;
    case FULL: {
        int64_t space = trouble->space;
        int64_t taken;
        do
            taken = space < (int64_t)size ? space : (int64_t)size;
        while (!atomic_compare_exchange_weak(&trouble->space, &space, space - taken));
        if (taken == 0 && size > 0)
            return refuse(ENOSPC, (int64_t)size);
        return (ssize_t)taken;
    }
    default:
        return (ssize_t)size;
    }
}

static int cannot_read(int file)
{
    return kind_for(file) == FAILING && fails(READ) ? refuse(EIO, 0) : 0;
}

/* Whether names must not be created, changed or removed, and files not truncated. */
static int cannot_change(const char *path)
{
    return is_ours(path) && trouble->kind == READ_ONLY ? refuse(EROFS, 0) : 0;
}

static int cannot_change_file(int file)
{
    return kind_for(file) == READ_ONLY ? refuse(EROFS, 0) : 0;
}

static int64_t now(void)
{
    struct timespec t = {0, 0};
    /* The system call, to bypass the library for clocks. */
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int synced(int file, int (*sync)(int))
{
    int64_t kind = kind_for(file);
    if (kind == READ_ONLY)
        return refuse(EROFS, 0);
    if (kind == FAILING && fails(FSYNC))
        return refuse(EIO, 0);
    if (kind != SLOW)
        return sync(file);
    int64_t began = now();
    int status = sync(file), error = errno;
    int64_t took = now() - began;
    int64_t wanted = (took > trouble->least ? took : trouble->least) * trouble->factor;
    if (wanted > trouble->most)
        wanted = trouble->most;
    for (int64_t left; (left = wanted - (now() - began)) > 0;) {
        struct timespec rest = {left / SECOND, left % SECOND};
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &rest, NULL);
    }
    took = now() - began;
    trouble->fsyncs++;
    int64_t known = trouble->slowest;
    while (known < took && !atomic_compare_exchange_weak(&trouble->slowest, &known, took))
        ;
    errno = error;
    return status;
}

/* --- opening and closing -------------------------------------------------------------------- */

static int opened(const char *path, int file)
{
    if (file >= 0 && file < MOST_FILES)
        ours[file] = (unsigned char)is_ours(path);
    return file;
}

static int cannot_open(const char *path, int flags)
{
    int changes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    return changes ? cannot_change(path) : 0;
}

static mode_t mode_of(int flags, va_list more)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

#define OPENS(name)                                                                                \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = mode_of(flags, more);                                                        \
        va_end(more);                                                                              \
        return cannot_open(path, flags) ? -1 : opened(path, REAL(name)(path, flags, mode));        \
    }

#define OPENS_AT(name)                                                                             \
    int name(int directory, const char *path, int flags, ...)                                      \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = mode_of(flags, more);                                                        \
        va_end(more);                                                                              \
        if (cannot_open(path, flags))                                                              \
            return -1;                                                                             \
        return opened(path, REAL(name)(directory, path, flags, mode));                             \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

int close(int file)
{
    if (file >= 0 && file < MOST_FILES)
        ours[file] = 0;
    return REAL(close)(file);
}

/* --- contents ------------------------------------------------------------------------------- */

ssize_t write(int file, const void *data, size_t size)
{
    ssize_t most = allowed(file, size);
    return most < 0 ? -1 : REAL(write)(file, data, (size_t)most);
}

#define WRITES_AT(name, offset)                                                                    \
    ssize_t name(int file, const void *data, size_t size, offset place)                            \
    {                                                                                              \
        ssize_t most = allowed(file, size);                                                        \
        return most < 0 ? -1 : REAL(name)(file, data, (size_t)most, place);                        \
    }

WRITES_AT(pwrite, off_t)
WRITES_AT(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec *parts, int count)
{
    if (kind_for(file) == WELL || kind_for(file) == SLOW)
        return REAL(writev)(file, parts, count);
    /* One part at a time: callers of writev must expect that. */
    return count > 0 ? write(file, parts[0].iov_base, parts[0].iov_len) : 0;
}

ssize_t read(int file, void *data, size_t size)
{
    return cannot_read(file) ? -1 : REAL(read)(file, data, size);
}

#define READS_AT(name, offset)                                                                     \
    ssize_t name(int file, void *data, size_t size, offset place)                                  \
    {                                                                                              \
        return cannot_read(file) ? -1 : REAL(name)(file, data, size, place);                       \
    }

READS_AT(pread, off_t)
READS_AT(pread64, off64_t)

int fsync(int file) { return synced(file, REAL(fsync)); }
int fdatasync(int file) { return synced(file, REAL(fdatasync)); }

int ftruncate(int file, off_t length)
{
    return cannot_change_file(file) ? -1 : REAL(ftruncate)(file, length);
}

int ftruncate64(int file, off64_t length)
{
    return cannot_change_file(file) ? -1 : REAL(ftruncate64)(file, length);
}

int fchmod(int file, mode_t mode)
{
    return cannot_change_file(file) ? -1 : REAL(fchmod)(file, mode);
}

/* --- names ---------------------------------------------------------------------------------- */

int rename(const char *path, const char *target)
{
    return cannot_change(path) || cannot_change(target) ? -1 : REAL(rename)(path, target);
}

int renameat(int from, const char *path, int to, const char *target)
{
    if (cannot_change(path) || cannot_change(target))
        return -1;
    return REAL(renameat)(from, path, to, target);
}

int unlink(const char *path) { return cannot_change(path) ? -1 : REAL(unlink)(path); }

int unlinkat(int directory, const char *path, int flags)
{
    return cannot_change(path) ? -1 : REAL(unlinkat)(directory, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return cannot_change(path) ? -1 : REAL(mkdir)(path, mode);
}

int rmdir(const char *path) { return cannot_change(path) ? -1 : REAL(rmdir)(path); }
