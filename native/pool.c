/* A pool of threads that never makes its caller wait for a thread that has not begun.

   Work comes as a fixed number of parts, so results do not depend on the number of threads. The caller takes part after
   part itself; a helper that is awake takes parts as well. A helper that finds no work spins for a few microseconds and
   then sleeps. On a machine that is busy with something else the caller so does all of the work alone, and is as fast
   as without helpers: one that the system woke on the caller's own processor could only be in the way, and sleeps on.
   A second caller at the same time, from another thread of Python, works alone, too.

   A child process has no helpers after fork(): it starts its own at the first use. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getaffinity, sched_getcpu */
#endif
#include "pool.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "threads.h"

#define SPINS 4000 /* about 20 microseconds */
#define MOST 256

static struct {
    _Alignas(64) _Atomic uint64_t open; /* the number of the job that may be joined; 0: none */
    _Alignas(64) _Atomic int64_t next;  /* the next part of it */
    _Alignas(64) _Atomic int users;     /* helpers that may be at work on it */
    _Alignas(64) _Atomic int sleeping;
    _Atomic int processor; /* on which the caller runs */
    uint64_t last;
    pg_task task;
    void *context;
    int64_t parts;
    _Atomic int threads;
    int started;
    pg_lock lock, busy;
    pg_condition wake;
} pool = {.lock = PG_LOCK_INIT, .busy = PG_LOCK_INIT, .wake = PG_CONDITION_INIT};

static void take_parts(void) {
    int64_t part;
    while ((part = atomic_fetch_add(&pool.next, 1)) < pool.parts) pool.task(pool.context, part);
}

static int processor(void); /* the number of the one that runs this, or -1 */

static int is_crowded(void) {
    int here = processor();
    return here >= 0 && here == atomic_load(&pool.processor);
}

static uint64_t next_job(uint64_t seen) {
    uint64_t job;
    for (long i = is_crowded() ? SPINS : 0; (job = atomic_load(&pool.open)) == 0 || job == seen; i++) {
        if (i < SPINS) {
            PG_PAUSE();
            continue;
        }
        pg_acquire(&pool.lock);
        atomic_fetch_add(&pool.sleeping, 1);
        while ((job = atomic_load(&pool.open)) == 0 || job == seen) pg_wait(&pool.wake, &pool.lock);
        atomic_fetch_sub(&pool.sleeping, 1);
        pg_release(&pool.lock);
        i = 0;
    }
    return job;
}

static void helper(intptr_t number) {
    for (uint64_t seen = 0;;) {
        uint64_t job = next_job(seen);
        atomic_fetch_add(&pool.users, 1); /* before it asks again: whoever closes the job then waits for this one */
        if (atomic_load(&pool.open) == job) {
            if (number < atomic_load(&pool.threads) && !is_crowded()) take_parts();
            seen = job;
        }
        atomic_fetch_sub(&pool.users, 1);
    }
}

#ifdef _WIN32
static DWORD WINAPI entry(LPVOID number) { helper((intptr_t)number); return 0; }

static int start(intptr_t number) {
    HANDLE thread = CreateThread(NULL, 0, entry, (LPVOID)number, 0, NULL);
    if (thread) CloseHandle(thread);
    return thread != NULL;
}

static void watch_forks(void) {}

static int processor(void) { return (int)GetCurrentProcessorNumber(); }

static int processors(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}
#else
static void *entry(void *number) { helper((intptr_t)number); return NULL; }

static int start(intptr_t number) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, entry, (void *)number)) return 0;
    pthread_detach(thread);
    return 1;
}

static void in_child(void) {
    pool.started = 0;
    atomic_store(&pool.open, 0);
    atomic_store(&pool.users, 0);
    atomic_store(&pool.sleeping, 0);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_mutex_init(&pool.busy, NULL);
    pthread_cond_init(&pool.wake, NULL);
}

static void watch_forks(void) {
    static int watched;
    if (!watched) watched = !pthread_atfork(NULL, NULL, in_child);
}

#ifdef __linux__
static int processor(void) { return sched_getcpu(); }
#else
static int processor(void) { return -1; } /* the system does not tell */
#endif

static int processors(void) {
#ifdef __linux__
    cpu_set_t set; /* those that this process may use, which a container may have made fewer */
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}
#endif

int pg_threads(void) {
    int threads = atomic_load(&pool.threads);
    if (!threads) {
        const char *given = getenv("OMP_NUM_THREADS");
        threads = given ? atoi(given) : processors();
        pg_set_threads(threads);
    }
    return atomic_load(&pool.threads);
}

void pg_set_threads(int threads) { atomic_store(&pool.threads, threads < 1 ? 1 : threads > MOST ? MOST : threads); }

static void alone(int64_t parts, pg_task task, void *context) {
    for (int64_t part = 0; part < parts; part++) task(context, part);
}

void pg_parallel(int64_t parts, pg_task task, void *context) {
    int threads = parts > 1 ? pg_threads() : 1;
    if (threads == 1 || !pg_try_acquire(&pool.busy)) {
        alone(parts, task, context);
        return;
    }
    if (pool.started < threads - 1) {
        watch_forks();
        while (pool.started < threads - 1 && start(pool.started + 1)) pool.started++;
    }
    pool.task = task, pool.context = context, pool.parts = parts;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.processor, processor());
    atomic_store(&pool.open, ++pool.last);
    if (atomic_load(&pool.sleeping)) {
        pg_acquire(&pool.lock);
        pg_wake_all(&pool.wake);
        pg_release(&pool.lock);
    }
    take_parts();
    atomic_store(&pool.open, 0);
    for (long i = 0; atomic_load(&pool.users); i++) {
        if (i < SPINS) PG_PAUSE();
        else pg_yield();
    }
    pg_release(&pool.busy);
}
