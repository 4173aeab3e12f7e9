/*
 * Gives one process its own clocks, controlled by a file; those of the machine do not change.
 *
 * Preloaded into a dynamically linked program (glibc), this library intercepts the program's calls
 * that read the time or wait, and applies the setting in the file that KRAFTWRECK_CLOCK names. It
 * only reads the machine's clocks. Without the variable or the file it changes nothing.
 *
 * Monotonic clocks run at another rate and never jump. Real-time clocks run at that rate while a
 * setting is in force, and are also ahead, all the time or in every other period. The writer
 * (harness/on_host/agent.py) changes the file in place: it writes the pair that is not in force and
 * then increments `changes`. So a writer that is killed half-way has changed nothing. A setting
 * begins at a moment in the future; until then the previous one, which is in the same pair, is in
 * force. So the change is exact, and the same for all readers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define MILLION INT64_C(1000000)
#define SLICE (50 * MILLION) /* ns: how soon a wait notices a change of the rate */
#define WALL_BEGINS 1000000000 /* s: no machine is up that long, and no wall clock is that early */

struct setting {
    int64_t since;  /* ns of the machine's monotonic clock */
    int64_t mono;   /* ns: the monotonic clock at that moment */
    int64_t rate;   /* parts per million faster */
    int64_t wall;   /* ns the real-time clock is ahead */
    int64_t strobe; /* ns of a period; 0: all the time */
};

struct control {
    _Atomic uint64_t changes; /* the last bit selects the pair in force */
    struct {
        struct setting before, now;
    } pairs[2];
};

static const volatile struct control *control;
static _Atomic int64_t latest; /* the greatest monotonic time returned so far */

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static int (*real_pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
                           const sigset_t *);
static int (*real_clock_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
static int (*real_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t,
                                  const struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
    real_ppoll = dlsym(RTLD_NEXT, "ppoll");
    real_pselect = dlsym(RTLD_NEXT, "pselect");
    real_clock_nanosleep = dlsym(RTLD_NEXT, "clock_nanosleep");
    real_sem_clockwait = dlsym(RTLD_NEXT, "sem_clockwait");
    real_sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
    real_cond_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real_cond_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");

    const char *path = getenv("KRAFTWRECK_CLOCK");
    struct stat status;
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    if (fstat(file, &status) == 0 && status.st_size >= (off_t)sizeof(struct control)) {
        void *map = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, file, 0);
        if (map != MAP_FAILED)
            control = map;
    }
    close(file);
}

static int64_t ns(const struct timespec *t) { return t->tv_sec * SECOND + t->tv_nsec; }

static struct timespec timespec_of(int64_t value)
{
    struct timespec t = {value / SECOND, value % SECOND};
    if (t.tv_nsec < 0) {
        t.tv_sec--;
        t.tv_nsec += SECOND;
    }
    return t;
}

static int machine(clockid_t id, struct timespec *t)
{
    if (real_clock_gettime)
        return real_clock_gettime(id, t);
    return (int)syscall(SYS_clock_gettime, id, t); /* before the constructor has run */
}

static int64_t machine_ns(clockid_t id)
{
    struct timespec t = {0, 0};
    machine(id, &t);
    return ns(&t);
}

static int is_mono(clockid_t id)
{
    return id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW || id == CLOCK_MONOTONIC_COARSE ||
           id == CLOCK_BOOTTIME;
}

static int is_wall(clockid_t id)
{
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI;
}

/* The setting in force when the machine's monotonic clock reads `mono`. */
static struct setting in_force(int64_t mono)
{
    struct setting chosen;
    uint64_t changes;
    do {
        changes = atomic_load_explicit(&control->changes, memory_order_acquire);
        chosen = mono < control->pairs[changes & 1].now.since ? control->pairs[changes & 1].before
                                                              : control->pairs[changes & 1].now;
        atomic_thread_fence(memory_order_acquire);
    } while (atomic_load_explicit(&control->changes, memory_order_relaxed) != changes);
    return chosen;
}

static int64_t gained(const struct setting *s, int64_t mono)
{
    return (int64_t)((__int128)(mono - s->since) * s->rate / MILLION);
}

static int64_t own_mono(int64_t mono)
{
    struct setting s = in_force(mono);
    int64_t value = s.mono + (mono - s.since) + gained(&s, mono);
    int64_t known = atomic_load(&latest);
    /* A late writer must not make the clock go back. */
    while (known < value && !atomic_compare_exchange_weak(&latest, &known, value))
        ;
    return known > value ? known : value;
}

static int64_t own_wall(int64_t wall, int64_t mono)
{
    struct setting s = in_force(mono);
    int ahead = s.strobe <= 0 || (mono - s.since) / s.strobe % 2 == 0;
    return wall + gained(&s, mono) + (ahead ? s.wall : 0);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int status = machine(id, t);
    if (status != 0 || control == NULL)
        return status;
    if (is_mono(id)) {
        /* Clocks of one kind keep their difference on the machine. */
        int64_t mono = machine_ns(CLOCK_MONOTONIC);
        int64_t other = id == CLOCK_MONOTONIC ? 0 : ns(t) - mono;
        *t = timespec_of(own_mono(mono) + other);
    } else if (is_wall(id)) {
        *t = timespec_of(own_wall(ns(t), machine_ns(CLOCK_MONOTONIC)));
    }
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t != NULL)
        *t = now.tv_sec;
    return now.tv_sec;
}

/* --- waiting: timeouts are in the time of the process ------------------------------------ */

/* Machine time (ns) until the process's monotonic clock reads `deadline`, at most a slice. */
static int64_t slice(int64_t deadline)
{
    int64_t mono = machine_ns(CLOCK_MONOTONIC);
    int64_t left = deadline - own_mono(mono);
    struct setting s = in_force(mono);
    if (left <= 0)
        return 0;
    __int128 true_left = (__int128)left * MILLION / (MILLION + s.rate) + 1;
    return true_left < SLICE ? (int64_t)true_left : SLICE;
}

static int64_t deadline_after(int64_t wait) { return own_mono(machine_ns(CLOCK_MONOTONIC)) + wait; }

int epoll_pwait(int epoll, struct epoll_event *events, int most, int ms, const sigset_t *mask)
{
    if (control == NULL || ms <= 0)
        return real_epoll_pwait(epoll, events, most, ms, mask);
    int64_t deadline = deadline_after(ms * MILLION);
    for (;;) {
        int64_t wait = slice(deadline);
        int found = real_epoll_pwait(epoll, events, most, (int)((wait + MILLION - 1) / MILLION),
                                     mask);
        if (found != 0 || wait == 0)
            return found;
    }
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int ms)
{
    return epoll_pwait(epoll, events, most, ms, NULL);
}

int ppoll(struct pollfd *files, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    if (control == NULL || limit == NULL || ns(limit) <= 0)
        return real_ppoll(files, count, limit, mask);
    int64_t deadline = deadline_after(ns(limit));
    for (;;) {
        int64_t wait = slice(deadline);
        struct timespec part = timespec_of(wait);
        int found = real_ppoll(files, count, &part, mask);
        if (found != 0 || wait == 0)
            return found;
    }
}

int poll(struct pollfd *files, nfds_t count, int ms)
{
    struct timespec limit = timespec_of(ms * MILLION);
    return ppoll(files, count, ms < 0 ? NULL : &limit, NULL);
}

int pselect(int count, fd_set *restrict reads, fd_set *restrict writes, fd_set *restrict errors,
            const struct timespec *restrict limit, const sigset_t *restrict mask)
{
    if (control == NULL || limit == NULL || ns(limit) <= 0)
        return real_pselect(count, reads, writes, errors, limit, mask);
    fd_set asked[3];
    if (reads)
        asked[0] = *reads;
    if (writes)
        asked[1] = *writes;
    if (errors)
        asked[2] = *errors;
    int64_t deadline = deadline_after(ns(limit));
    for (;;) {
        int64_t wait = slice(deadline);
        struct timespec part = timespec_of(wait);
        int found = real_pselect(count, reads, writes, errors, &part, mask);
        if (found != 0 || wait == 0)
            return found;
        if (reads)
            *reads = asked[0];
        if (writes)
            *writes = asked[1];
        if (errors)
            *errors = asked[2];
    }
}

int select(int count, fd_set *restrict reads, fd_set *restrict writes, fd_set *restrict errors,
           struct timeval *restrict limit)
{
    struct timespec t;
    if (limit != NULL)
        t = timespec_of(limit->tv_sec * SECOND + limit->tv_usec * 1000);
    return pselect(count, reads, writes, errors, limit == NULL ? NULL : &t, NULL);
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *limit, struct timespec *left)
{
    if (control == NULL || !(is_mono(id) || is_wall(id)))
        return real_clock_nanosleep(id, flags, limit, left);
    struct timespec now;
    clock_gettime(id, &now);
    int64_t asked = flags & TIMER_ABSTIME ? ns(limit) - ns(&now) : ns(limit);
    int64_t deadline = deadline_after(asked);
    for (;;) {
        int64_t wait = slice(deadline);
        if (wait == 0)
            return 0;
        struct timespec part = timespec_of(wait);
        int status = real_clock_nanosleep(CLOCK_MONOTONIC, 0, &part, NULL);
        if (status != 0) {
            int64_t rest = deadline - own_mono(machine_ns(CLOCK_MONOTONIC));
            if (left != NULL && !(flags & TIMER_ABSTIME))
                *left = timespec_of(rest > 0 ? rest : 0);
            return status;
        }
    }
}

int nanosleep(const struct timespec *limit, struct timespec *left)
{
    int status = clock_nanosleep(CLOCK_REALTIME, 0, limit, left);
    if (status != 0)
        errno = status;
    return status == 0 ? 0 : -1;
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t id, const struct timespec *restrict limit)
{
    if (control == NULL || !(is_mono(id) || is_wall(id)))
        return real_sem_clockwait(semaphore, id, limit);
    struct timespec now;
    clock_gettime(id, &now);
    int64_t deadline = deadline_after(ns(limit) - ns(&now));
    for (;;) {
        int64_t wait = slice(deadline);
        struct timespec until = timespec_of(machine_ns(CLOCK_MONOTONIC) + wait);
        int status = real_sem_clockwait(semaphore, CLOCK_MONOTONIC, &until);
        if (status == 0 || errno != ETIMEDOUT || wait == 0)
            return status;
    }
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict limit)
{
    if (control == NULL)
        return real_sem_timedwait(semaphore, limit);
    return sem_clockwait(semaphore, CLOCK_REALTIME, limit);
}

/*
 * A wait for a condition is translated once and not cut into slices: a signal between two slices
 * could be lost. The interpreter's lock waits in this way, for milliseconds.
 */
static struct timespec translated(clockid_t id, const struct timespec *limit)
{
    struct timespec now;
    clock_gettime(id, &now);
    struct setting s = in_force(machine_ns(CLOCK_MONOTONIC));
    int64_t left = ns(limit) - ns(&now);
    left = (int64_t)((__int128)left * MILLION / (MILLION + s.rate));
    return timespec_of(machine_ns(id) + left);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict limit)
{
    if (control == NULL)
        return real_cond_timedwait(condition, mutex, limit);
    /* The clock of a condition cannot be queried; the given time shows which it is. */
    clockid_t id = limit->tv_sec < WALL_BEGINS ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    struct timespec until = translated(id, limit);
    return real_cond_timedwait(condition, mutex, &until);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           clockid_t id, const struct timespec *restrict limit)
{
    if (control == NULL || !(is_mono(id) || is_wall(id)))
        return real_cond_clockwait(condition, mutex, id, limit);
    struct timespec until = translated(id, limit);
    return real_cond_clockwait(condition, mutex, id, &until);
}
