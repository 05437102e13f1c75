/* Threads and locks of the system at hand. */
#ifndef PLUGRAD_THREADS_H
#define PLUGRAD_THREADS_H

#ifdef _WIN32
#include <windows.h>
typedef SRWLOCK pg_lock;
typedef CONDITION_VARIABLE pg_condition;
#define PG_LOCK_INIT SRWLOCK_INIT
#define PG_CONDITION_INIT CONDITION_VARIABLE_INIT
#define pg_acquire(lock) AcquireSRWLockExclusive(lock)
#define pg_try_acquire(lock) TryAcquireSRWLockExclusive(lock)
#define pg_release(lock) ReleaseSRWLockExclusive(lock)
#define pg_wait(condition, lock) SleepConditionVariableSRW(condition, lock, INFINITE, 0)
#define pg_wake_all(condition) WakeAllConditionVariable(condition)
#define pg_yield() SwitchToThread()
#else
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
typedef pthread_mutex_t pg_lock;
typedef pthread_cond_t pg_condition;
#define PG_LOCK_INIT PTHREAD_MUTEX_INITIALIZER
#define PG_CONDITION_INIT PTHREAD_COND_INITIALIZER
#define pg_acquire(lock) pthread_mutex_lock(lock)
#define pg_try_acquire(lock) (!pthread_mutex_trylock(lock))
#define pg_release(lock) pthread_mutex_unlock(lock)
#define pg_wait(condition, lock) pthread_cond_wait(condition, lock)
#define pg_wake_all(condition) pthread_cond_broadcast(condition)
#define pg_yield() sched_yield()
#endif

#if defined(__x86_64__)
#define PG_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PG_PAUSE() __asm__ volatile("yield")
#else
#define PG_PAUSE() ((void)0)
#endif

#endif
