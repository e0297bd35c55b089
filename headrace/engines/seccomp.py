# SPDX-License-Identifier: Apache-2.0
"""The system calls that a VNF in a container may make: an OCI seccomp profile.

What is not listed fails with EPERM. Listed is what programs with threads, memory, files, signals,
sockets and timers use. Not listed is what reaches the kernel or other processes: modules, kexec,
bpf, perf events, tracing, mounts, namespaces, keys, io_uring, userfaultfd, clocks, swap, quotas,
accounting, open_by_handle_at. Threads are made by `clone` without any flag of a namespace; `clone3`
passes its flags in memory, where a filter cannot look, so it "does not exist", and libc takes
`clone`. Sockets are of Unix, IPv4, IPv6 and netlink: of their own network namespace.
"""

from typing import Any

_NAMESPACE_FLAGS = 0x7E02_0000  # CLONE_NEW* of sched.h that clone(2) takes
_ENOSYS = 38
_AF_FAMILIES = (1, 2, 10, 16)  # UNIX, INET, INET6, NETLINK
_AF_PACKET = 17

_ALLOWED = """
accept accept4 access alarm arch_prctl bind brk capget chdir chmod chown clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3
epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve
execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown
fchownat fcntl fdatasync flock fork fstat fstatfs fsync ftruncate futex futex_waitv get_mempolicy
get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups
getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch ioctl kill lgetxattr link linkat
listen lseek lstat madvise mbind membarrier memfd_create mincore mkdir mkdirat mlock mlock2
mlockall mmap mprotect mremap msync munlock munlockall munmap nanosleep newfstatat open openat
openat2 pause pipe pipe2 poll ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 pwrite64
pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg rename
renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_setaffinity sched_yield select sendfile sendmmsg
sendmsg sendto set_mempolicy set_robust_list set_tid_address setgid setgroups setitimer setpgid
setpriority setresgid setresuid setrlimit setsid setsockopt setuid shutdown sigaltstack signalfd
signalfd4 socketpair splice stat statfs statx symlink symlinkat sync sync_file_range sysinfo tee
tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat
utimes vfork wait4 waitid write writev
"""


def profile(*, packets: bool = False) -> dict[str, Any]:
    """`linux.seccomp` of an OCI bundle, for x86-64; `packets`: with packet sockets, too."""
    equal = {"op": "SCMP_CMP_EQ"}
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [
            {"names": _ALLOWED.split(), "action": "SCMP_ACT_ALLOW"},
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ALLOW",
                "args": [
                    {
                        "index": 0,
                        "value": _NAMESPACE_FLAGS,
                        "valueTwo": 0,
                        "op": "SCMP_CMP_MASKED_EQ",
                    }
                ],
            },
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
            *(
                {
                    "names": ["socket"],
                    "action": "SCMP_ACT_ALLOW",
                    "args": [{"index": 0, "value": family, **equal}],
                }
                for family in (*_AF_FAMILIES, *((_AF_PACKET,) if packets else ()))
            ),
        ],
    }
