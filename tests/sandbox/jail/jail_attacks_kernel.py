"""Attacks on processes, the kernel and memory: see jail_attacks.py."""

from __future__ import annotations

from jail_prelude import calls, number

PROCESSES = {
    "fork": "result = os.fork() or os._exit(0)",
    "vfork": f"result = call({number('vfork')})",
    "clone": f"result = call({number('clone')}, 17, 0, 0, 0, 0) or os._exit(0)",
    "clone3": f"a = struct.pack('QQQQQQQQ', 0, 0, 0, 0, 17, 0, 0, 0); result = call({number('clone3')}, a, 64) or os._exit(0)",
    "forkpty": "result = os.forkpty()[0] or os._exit(0)",
    "thread": "import threading; t = threading.Thread(target=lambda: globals().__setitem__('result', 'ran')); t.start(); t.join()",
    "raw thread": "import _thread; _thread.start_new_thread(lambda: globals().__setitem__('result', 'ran'), ()); time.sleep(0.2)",
    "thread pool": "from concurrent.futures import ThreadPoolExecutor as P; result = P().submit(lambda: 'ran').result(1)",
    "process pool": "import multiprocessing as m; result = m.Pool(1).map(abs, [1])",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'echo x > /tmp/byref-breach'])",
    "execveat": f"v = (ctypes.c_char_p * 3)(b'/bin/touch', b'/tmp/byref-breach', None); call({number('execveat')}, -100, b'/bin/touch', v, None, 0)",
    "system": "result = os.system('true') == 0 or None",
    "popen": "result = os.popen('id').read() or None",
    "subprocess": "import subprocess; result = subprocess.check_output(['id']).decode()",
    "posix_spawn": "result = os.posix_spawn('/bin/true', ['true'], {})",
    "kill the zygote": "os.kill(os.getppid(), 9); result = 'killed'",
    "kill everything": "os.kill(-1, 9); result = 'killed'",
    "kill the group": "os.killpg(0, 9); result = 'killed'",
    "probe a process": "os.kill(1, 0); result = 'seen'",
    "tgkill": f"result = ['sent', call({number('tgkill')}, os.getppid(), os.getppid(), 9)]",
    "tkill": f"result = ['sent', call({number('tkill')}, os.getppid(), 9)]",
    "rt_sigqueueinfo": f"result = ['sent', call({number('rt_sigqueueinfo')}, os.getppid(), 9, struct.pack('iii', 9, 0, -1) + bytes(116))]",
    "pidfd_open": "result = os.pidfd_open(os.getppid())",
    "pidfd_send_signal": f"result = ['sent', call({number('pidfd_send_signal')}, os.pidfd_open(os.getppid()), 9, None, 0)]",
    "signals through fcntl": """
import fcntl
for fd in range(64):
    try:
        fcntl.fcntl(fd, fcntl.F_SETOWN, os.getppid()); result = 'owner set'
    except OSError: pass
""",
    "asynchronous I/O": """
import fcntl
for fd in range(64):
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC); result = 'flag set'
    except OSError: pass
""",
    "another signal for I/O": """
import fcntl
for fd in range(64):
    try:
        fcntl.fcntl(fd, 10, 9); result = 'signal set'
    except OSError: pass
""",
    "duplicate a descriptor": """
for fd in range(64):
    try: result = os.dup(fd)
    except OSError: pass
""",
    "ptrace the zygote": f"result = ['attached', call({number('ptrace')}, 16, os.getppid(), 0, 0)]",
    "ptrace oneself": f"result = ['traced', call({number('ptrace')}, 0, 0, 0, 0)]",
    "read the zygote's memory": f"""
b = buffer(64)
v = struct.pack('QQ', ctypes.addressof(b), 64)
result = call({number("process_vm_readv")}, os.getppid(), v, 1, struct.pack('QQ', id(b), 64), 1, 0)
""",
    "write the zygote's memory": f"""
b = buffer(64)
v = struct.pack('QQ', ctypes.addressof(b), 64)
result = call({number("process_vm_writev")}, os.getppid(), v, 1, v, 1, 0)
""",
    "survive the zygote": "libc.prctl.restype = ctypes.c_int; result = 'kept' if libc.prctl(1, 0, 0, 0, 0) == 0 else None",
    "become dumpable": "result = 'dumpable' if libc.prctl(4, 1, 0, 0, 0) == 0 else None",
    "rename oneself": "result = 'renamed' if libc.prctl(15, b'init', 0, 0, 0) == 0 else None",
    "new session": "os.setsid(); result = 'new'",
    "new group": "os.setpgid(0, 0); result = 'new'",
    "a higher priority": "os.nice(-1); result = 'raised'",
    "a lower priority of others": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19); result = 'lowered'",
    "pin the zygote to a processor": "os.sched_setaffinity(os.getppid(), {0}); result = 'pinned'",
    "real-time scheduling": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); result = 'real time'",
    "raise a limit": "import resource as r; r.setrlimit(r.RLIMIT_CPU, (1000, 1000)); result = 'raised'",
    "lower a limit of the zygote": "import resource as r; r.prlimit(os.getppid(), r.RLIMIT_CPU, (0, 0)); result = 'lowered'",
    "read a limit of the zygote": "import resource as r; result = r.prlimit(os.getppid(), r.RLIMIT_CPU)",
    "a new timer": "signal.setitimer(signal.ITIMER_REAL, 1000); result = 'set'",
    "alarm": "signal.alarm(1000); left = signal.alarm(0); result = left if 0 < left <= 1000 else None",
    "POSIX timer": f"result = ['made', call({number('timer_create')}, 1, None, buffer(8))]",
    "kcmp": f"result = ['same', call({number('kcmp')}, os.getpid(), os.getppid(), 1, 0, 0)]",
    "become root": "os.setuid(0); result = 'root'",
    "become another": "os.setresgid(0, 0, 0); result = 'root'",
    "capabilities": f"result = ['set', call({number('capset')}, struct.pack('Ii', 0x20080522, 0), bytes(24))]",
    "capabilities of others": f"result = ['read', call({number('capget')}, struct.pack('Ii', 0x20080522, os.getppid()), buffer(24))]",
    "another kill of the zygote": f"result = ['sent', call({number('rt_tgsigqueueinfo')}, os.getppid(), os.getppid(), 9, struct.pack('iii', 9, 0, -1) + bytes(116))]",
    "a descriptor of the zygote": f"result = call({number('pidfd_getfd')}, os.pidfd_open(os.getppid()), 0, 0)",
    "stop the zygote": "os.kill(os.getppid(), signal.SIGSTOP); result = 'stopped'; os.kill(os.getppid(), signal.SIGCONT)",
    "stop oneself": "pid = os.getpid(); os.kill(pid, 0); result = 'could'",
    "raise": "signal.signal(signal.SIGUSR1, lambda *_: globals().__setitem__('result', 'raised')); signal.raise_signal(signal.SIGUSR1)",
    "group of the zygote": "result = os.getpgid(os.getppid())",
    "session of the zygote": "result = os.getsid(os.getppid())",
    "priority of the zygote": "result = ['read', os.getpriority(os.PRIO_PROCESS, os.getppid())]",
    "processors of the zygote": "result = list(os.sched_getaffinity(os.getppid()))",
    "whether a process lives": """
result = []
for pid in range(1, 3000):
    try: os.sched_getaffinity(pid); result.append(pid)
    except ProcessLookupError: pass
""",
    "processor time of the zygote": "result = time.clock_gettime((~os.getppid() << 3) | 2)",
    "clock of the zygote": "result = time.clock_getres((~os.getppid() << 3) | 2)",
    "sleep by the zygote's clock": f"""
try: result = ['slept', call({number("clock_nanosleep")}, (~os.getppid() << 3) | 2, 1, struct.pack('QQ', 0, 1), None)]
except TimeoutError: result = 'known'
""",
    "scheduling of the zygote": "result = ['read', os.sched_getscheduler(os.getppid()), os.sched_getparam(os.getppid()).sched_priority]",
    "scheduling attributes": f"result = ['set', call({number('sched_setattr')}, 0, struct.pack('IIQiIQQQ', 48, 3, 0, 0, 0, 0, 0, 0), 0)]",
    "scheduling attributes of the zygote": f"result = ['read', call({number('sched_getattr')}, os.getppid(), buffer(48), 48, 0)]",
    "time slice of the zygote": "result = os.sched_rr_get_interval(os.getppid())",
    "a priority of disk for the zygote": f"result = ['set', call({number('ioprio_set')}, 1, os.getppid(), 3 << 13)]",
    "priority of disk of the zygote": f"result = ['read', call({number('ioprio_get')}, 1, os.getppid())]",
    "pin oneself": "os.sched_setaffinity(0, {0}); result = 'pinned'",
    "a robust list": f"result = ['set', call({number('set_robust_list')}, page(), 24)]",
    "an address to clear at the end": f"result = ['set', call({number('set_tid_address')}, page())]",
    "a register of the processor": f"result = ['read', call({number('arch_prctl')}, 0x1003, buffer(8))]",
    "a soft limit": "import resource as r; r.setrlimit(r.RLIMIT_STACK, r.getrlimit(r.RLIMIT_STACK)); result = 'set'",
    "clone as a sibling": f"result = call({number('clone')}, 0x8000 | 17, 0, 0, 0, 0) or os._exit(0)",
    "clone into a new namespace": f"result = call({number('clone')}, 0x20000 | 17, 0, 0, 0, 0) or os._exit(0)",
    "fork in a signal handler": "signal.signal(signal.SIGUSR1, lambda *_: globals().__setitem__('result', os.fork() or os._exit(0))); os.kill(os.getpid(), signal.SIGUSR1)",
    "spawn through multiprocessing": "import multiprocessing as m; p = m.get_context('fork').Process(target=abs, args=(1,)); p.start(); result = p.pid",
    "asyncio subprocess": "import asyncio; result = asyncio.run(asyncio.create_subprocess_exec('/bin/true')).pid",
    "a shell by pty": "import pty; result = pty.fork()[0] or os._exit(0)",
    # The many things prctl does: none of them is a run's business.
    **{
        f"prctl({arguments})": f"result = ['done', call({number('prctl')}, {arguments})]"
        for arguments in [
            "16, buffer(16), 0, 0, 0",  # read the name
            "8, 1, 0, 0, 0",  # keep capabilities
            "28, 1, 0, 0, 0",  # secure bits
            "29, 1000, 0, 0, 0",  # timer slack
            "31, 0, 0, 0, 0",  # performance counters
            "33, 0, 0, 0, 0",  # what happens after an error of memory
            "35, 1, 0, 0, 0",  # the map of the own memory
            "36, 1, 0, 0, 0",  # reaper of its grandchildren
            "41, 1, 0, 0, 0",  # huge pages
            "47, 4, 0, 0, 0",  # ambient capabilities
            "52, 0, 0, 0, 0",  # speculation
            "53, 0, 4, 0, 0",  # speculation, for Spectre
            "57, 1, 0, 0, 0",  # a flusher
            "59, 0, 0, 0, 0",  # system calls to user space
            "62, 0, 0, 0, 0",  # core scheduling
            "26, 1, 0, 0, 0",  # time stamp counter
            "65, 1, 0, 0, 0",  # memory that is not executable
            "67, 1, 0, 0, 0",  # merging of memory
        ]
    },
}

KERNEL = {
    **calls("bpf", "0, struct.pack('IIII', 2, 4, 4, 1) + bytes(112), 128"),
    **calls("io_uring_setup", "1, buffer(128)"),
    **calls("keyctl", "0, -3, 1", "1, None", "22, -1, -3"),
    **calls("add_key", "b'user', b'a', b'b', 1, -3"),
    **calls(
        "unshare",
        "0x10000000",
        "0x40000000",
        "0x20000",
        "0x20000000",
        "0x04000000",
        "0x08000000",
        "0x02000000",
        "0x400",
    ),
    "setns": f"result = ['joined', call({number('setns')}, os.open('/proc/self/ns/uts', 0), 0)]",
    "setns by process": f"result = ['joined', call({number('setns')}, os.pidfd_open(os.getppid()), 0x04000000)]",
    **calls("perf_event_open", "struct.pack('IIQ', 1, 112, 0) + bytes(112), 0, -1, -1, 0"),
    **calls("userfaultfd", "0", "1"),
    **calls("seccomp", "3, 0, buffer(8)", "2, 0, buffer(4, struct.pack('I', 0))"),
    "a filter of its own": "k = buffer(8, struct.pack('HBBI', 6, 0, 0, 0x7fff0000)); f = struct.pack('HxxxxxxP', 1, ctypes.addressof(k));"
    f" libc.prctl(38, 1, 0, 0, 0); result = ['installed', call({number('seccomp')}, 1, 0, f)]",
    "a filter that asks": "k = buffer(8, struct.pack('HBBI', 6, 0, 0, 0x7fff0000)); f = struct.pack('HxxxxxxP', 1, ctypes.addressof(k));"
    f" libc.prctl(38, 1, 0, 0, 0); result = ['asks', call({number('seccomp')}, 1, 8, f)]",
    **calls("mount", "b'none', b'/tmp', b'tmpfs', 0, None"),
    **calls("umount2", "b'/proc', 2"),
    "a mount in user space": f"f = call({number('fsopen')}, b'tmpfs', 0); call({number('fsconfig')}, f, 6, None, None, 0); result = ['mounted', call({number('fsmount')}, f, 0, 0)]",
    "a moved mount": f"result = ['moved', call({number('move_mount')}, call({number('open_tree')}, -100, b'/tmp', 1), b'', -100, b'/tmp', 4)]",
    "a bound mount": f"result = ['mounted', call({number('mount')}, b'/etc', b'/tmp', None, 4096, None)]",
    "attributes of mounts": f"result = ['set', call({number('mount_setattr')}, -100, b'/', 0, struct.pack('QQQQ', 0, 0, 0, 0), 32)]",
    **calls("chroot", "b'/tmp'"),
    **calls("open_tree", "-100, b'/', 0"),
    **calls("fsopen", "b'tmpfs', 0"),
    **calls("acct", "None"),
    **calls("syslog", "10, None, 0", "3, buffer(4096), 4096"),
    **calls("setdomainname", "b'x', 1"),
    **calls("capget", "struct.pack('Ii', 0x20080522, 0), buffer(24)"),
    **calls("clock_adjtime", "0, buffer(256)"),
    **calls("getgroups", "0, None"),
    **calls("uname", "buffer(512)"),
    **calls("sysfs", "3"),
    **calls("kcmp", "os.getpid(), os.getpid(), 1, 0, 0"),
    **calls("mincore", "page(), 4096, buffer(1)"),
    **calls("mseal", "page(), 4096, 0"),
    **calls("pkey_alloc", "0, 0"),
    **calls("set_mempolicy", "0, None, 0"),
    **calls("get_mempolicy", "None, None, 0, None, 0"),
    **calls("mbind", "page(), 4096, 0, None, 0, 0"),
    **calls("move_pages", "0, 0, None, None, None, 0"),
    **calls("io_destroy", f"call({number('io_setup')}, 1, (k := buffer(8))) or struct.unpack('Q', k.raw)[0]"),
    **calls("cachestat", "os.open('/etc/passwd', 0), bytes(16), buffer(40), 0"),
    **calls("listmount", "struct.pack('IIQQ', 24, 0, -1 % 2**64, 0), buffer(64), 8, 0"),
    **calls("lsm_list_modules", "buffer(256), buffer(4, struct.pack('I', 256)), 0"),
    **calls("futex", "page(), 6, 0, None, None, 0", "page(), 8, 0, None, None, 0", "page(), 13, 0, None, None, 0"),
    **calls("futex_wake", "page(), 1, 1, 2"),
    **calls("futex_requeue", "(k := buffer(48, struct.pack('QQII', 0, page(), 2, 0) * 2)), 0, 1, 1"),
    **calls("shmctl", "0, 14, buffer(256)"),
    **calls("msgctl", "0, 3, buffer(256)"),
    **calls("semctl", "0, 0, 3, buffer(256)"),
    **calls("ptrace", "0, 0, 0, 0"),
    **calls("landlock_restrict_self", f"call({number('landlock_create_ruleset')}, struct.pack('Q', 1), 8, 0), 0"),
    **calls("sethostname", "b'x', 1"),
    **calls("settimeofday", "None, None"),
    **calls("adjtimex", "buffer(256)"),
    **calls("personality", "0x400000"),
    **calls("vhangup", ""),
    **calls("modify_ldt", "0, buffer(64), 64"),
    **calls("shmget", "0, 4096, 0o1777"),
    **calls("msgget", "0, 0o1777"),
    **calls("semget", "0, 1, 0o1777"),
    **calls("mq_open", "b'x', 0o102, 0o600, None"),
    **calls("landlock_create_ruleset", "None, 0, 1"),
    **calls("get_robust_list", "1, buffer(8), buffer(8)"),
    **calls("membarrier", "0, 0"),
    **calls("ioctl", "1, 0x5412, b'x'", "1, 0x5413, buffer(8)"),
    # The same calls by their x32 numbers: a filter that knows only the native ones lets them through.
    **{
        f"x32 {name}": f"result = ['{name}', call({number(name) | 0x40000000}, {arguments})]"
        for name, arguments in [
            ("getpid", "0"),
            ("openat", "-100, b'/etc/passwd', 0"),
            ("socket", "2, 1, 0"),
            ("fork", "0"),
            ("mmap", "0, 4096, 7, 0x22, -1, 0"),
            ("stat", "b'/etc/passwd', buffer(256)"),
        ]
    },
}

MEMORY = {
    "writable and executable": "import mmap; result = mmap.mmap(-1, 4096, prot=7) and 'mapped'",
    "executable": "import mmap; result = mmap.mmap(-1, 4096, prot=5) and 'mapped'",
    "made executable": f"""
import mmap
m = mmap.mmap(-1, 8192)
page = (ctypes.addressof(ctypes.c_char.from_buffer(m)) + 4095) & ~4095
result = ['executable', call({number("mprotect")}, page, 4096, 5)]
""",
    "stack made executable": f"""
b = buffer(8192)
result = ['executable', call({number("mprotect")}, (ctypes.addressof(b) + 4095) & ~4095, 4096, 7)]
""",
    "made executable with a key": f"""
b = buffer(8192)
result = ['executable', call({number("pkey_mprotect")}, (ctypes.addressof(b) + 4095) & ~4095, 4096, 7, -1)]
""",
    "shared and executable": f"result = ['mapped', call({number('mmap')}, 0, 4096, 7, 0x21, -1, 0)]",
    "high bits beside the flag": f"result = ['mapped', call({number('mmap')}, 0, 4096, 7 | 1 << 32, 0x22, -1, 0)]",
    "remap": f"m = call({number('mmap')}, 0, 8192, 3, 0x21, -1, 0); result = ['mapped', call({number('remap_file_pages')}, m, 4096, 0, 0, 0)]",
    "locked memory": f"b = buffer(1 << 20); result = ['locked', call({number('mlock')}, ctypes.addressof(b), 1 << 20)]",
    "all memory locked": f"result = ['locked', call({number('mlockall')}, 6)]",
    "locked mapping": f"result = ['locked', call({number('mmap')}, 0, 4096, 3, 0x2022, -1, 0)]",
    "huge pages of the machine": f"result = ['mapped', call({number('mmap')}, 0, 2 << 20, 3, 0x40022, -1, 0)]",
    "locked with a flag": f"result = ['locked', call({number('mlock2')}, page(), 4096, 1)]",
    "unlocked": f"result = ['unlocked', call({number('munlock')}, page(), 4096)]",
    "written to a file": f"result = ['synced', call({number('msync')}, page(), 4096, 1)]",
    "shared memory of old": f"i = call({number('shmget')}, 0, 4096, 0o1777); result = ['mapped', call({number('shmat')}, i, 0, 0o100000)]",
    "executable by personality": f"call({number('personality')}, 0x400000); result = ['mapped', call({number('mmap')}, 0, 4096, 1, 0x22, -1, 0)]",
    "executable from a file": f"f = call({number('memfd_create')}, b'x', 0); os.write(f, b'\\xc3' * 4096); result = ['mapped', call({number('mmap')}, 0, 4096, 5, 2, f, 0)]",
    "executable library": "import mmap; f = os.open(sys.executable, 0); result = mmap.mmap(f, 4096, flags=2, prot=5) and 'mapped'",
    "a function made of bytes": """
import mmap
m = mmap.mmap(-1, 4096, prot=7); m.write(b'\\xb8\\x2a\\0\\0\\0\\xc3')
result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
""",
    # Advice that others feel: what is merged or paged out can be timed.
    **calls(
        "madvise",
        "page(), 4096, 12",
        "page(), 4096, 13",
        "page(), 4096, 20",
        "page(), 4096, 21",
        "page(), 4096, 10",
        "page(), 4096, 18",
    ),
    **calls("process_madvise", "os.pidfd_open(os.getpid()), struct.pack('QQ', page(), 4096), 1, 20, 0"),
}
