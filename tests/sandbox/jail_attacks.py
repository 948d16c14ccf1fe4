"""Attacks on the jail alone: plain CPython that sets `result` to its loot if it gets any.

Each is written so that the loot is plain to see without the jail. System calls are given by name and numbered for this
machine; `call` returns what the kernel returned, and raises OSError for what it refused.
"""

from __future__ import annotations

from seccompy import syscall_nr

PRELUDE = """
import ctypes, errno, os, sys, signal, time, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *arguments):
    ctypes.set_errno(0)
    passed = [a if isinstance(a, (bytes, ctypes.Array, type(None))) or hasattr(a, '_obj') else ctypes.c_long(a) for a in arguments]
    got = libc.syscall(ctypes.c_long(number), *passed)
    if got == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
result = None
"""


def number(name: str) -> int:
    """The number of a system call here; -1, which no kernel knows, where it does not exist."""
    try:
        return syscall_nr(name)
    except ValueError:
        return -1


def _calls(name: str, *argument_lists: str) -> dict[str, str]:
    return {
        f"{name}({arguments})": f"result = ['{name}', call({number(name)}{', ' if arguments else ''}{arguments})]"
        for arguments in argument_lists
    }


NETWORK = {
    **{
        f"socket({family}, {kind})": f"result = call({number('socket')}, {family}, {kind}, 0)"
        for family, kind in [
            ("1", "1"),  # unix
            ("1", "5"),
            ("2", "1"),  # IPv4
            ("2", "2"),
            ("2", "3"),
            ("10", "1"),  # IPv6
            ("10", "2"),
            ("16", "3"),  # netlink
            ("17", "3"),  # packet
            ("38", "5"),  # kernel crypto
            ("40", "1"),  # to the hypervisor
            ("44", "3"),  # XDP
        ]
    },
    "python socket": "import socket; result = socket.socket().fileno()",
    "connect to a server": "import socket; result = socket.create_connection(('127.0.0.1', 22), 1).getsockname()",
    "resolve a name": "import socket; result = socket.getaddrinfo('example.org', 80)",
    "abstract unix socket": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0byref'); result = 'bound'",
    "socketpair": "import socket; result = socket.socketpair()[0].fileno()",
    "url": "import urllib.request; result = urllib.request.urlopen('http://127.0.0.1/').read()",
    **_calls("sendto", "0, b'x', 1, 0, None, 0"),
    **_calls("connect", "0, b'', 0"),
    **_calls("bind", "0, b'', 0"),
    **_calls("accept4", "0, None, None, 0"),
    "recvmsg": f"b = ctypes.create_string_buffer(64); result = call({number('recvmsg')}, 0, b, 0)",
}

FILES = {
    "open /etc/passwd": "result = open('/etc/passwd').read()",
    "open /proc/self/environ": "result = open('/proc/self/environ', 'rb').read().decode() or 'empty'",
    "open /proc/self/maps": "result = open('/proc/self/maps').read()",
    "open /proc/1/cmdline": "result = open('/proc/1/cmdline').read()",
    "open the parent's memory": "result = open(f'/proc/{os.getppid()}/mem', 'rb').fileno()",
    "open /dev/null": "result = os.open('/dev/null', os.O_RDONLY)",
    "open the terminal": "result = os.open('/dev/tty', os.O_RDWR)",
    "open /dev/shm": "result = os.open('/dev/shm/byref', os.O_CREAT | os.O_RDWR)",
    "create in /tmp": "open('/tmp/byref-breach', 'w').write('x'); result = 'written'",
    "create here": "open('byref-breach', 'w').write('x'); result = 'written'",
    "temporary file": "import tempfile; result = tempfile.TemporaryFile().fileno()",
    "unnamed file": "result = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)",
    "O_PATH": "result = os.open('/', os.O_PATH)",
    "openat2": f"result = call({number('openat2')}, -100, b'/etc/passwd', struct.pack('QQQ', 0, 0, 0), 24)",
    "creat": f"result = call({number('creat')}, b'/tmp/byref-breach', 0o644)",
    "memfd_create": f"result = call({number('memfd_create')}, b'x', 0)",
    "memfd_secret": f"result = call({number('memfd_secret')}, 0)",
    "shared memory": "from multiprocessing import shared_memory; result = shared_memory.SharedMemory(create=True, size=64).name",
    "list /": "result = os.listdir('/')",
    "list here": "result = os.listdir()",
    "scandir": "result = [e.name for e in os.scandir('/')]",
    "glob": "import glob; result = glob.glob('/*') or None",
    "exists": "result = os.path.exists('/etc/passwd') or None",
    "stat": "result = os.stat('/etc/passwd').st_size",
    "lstat": "result = os.lstat('/').st_ino",
    "statx": f"b = ctypes.create_string_buffer(256); call({number('statx')}, -100, b'/etc/passwd', 0, 0x7ff, b); result = b.raw.hex()",
    "statvfs": "result = os.statvfs('/').f_blocks",
    "access": "result = os.access('/etc/passwd', os.R_OK) or None",
    "readlink": "result = os.readlink('/proc/self/exe')",
    "getcwd": "result = os.getcwd()",
    "chdir": "os.chdir('/tmp'); result = 'moved'",
    "mkdir": "os.mkdir('/tmp/byref-breach'); result = 'made'",
    "unlink": "os.unlink('/tmp/byref-sentinel'); result = 'gone'",
    "rename": "os.rename('/tmp/byref-sentinel', '/tmp/byref-breach'); result = 'moved'",
    "truncate": "os.truncate('/tmp/byref-sentinel', 0); result = 'emptied'",
    "symlink": "os.symlink('/etc/passwd', '/tmp/byref-breach'); result = 'linked'",
    "link": "os.link('/tmp/byref-sentinel', '/tmp/byref-breach'); result = 'linked'",
    "chmod": "os.chmod('/tmp/byref-sentinel', 0o777); result = 'changed'",
    "chown": "os.chown('/tmp/byref-sentinel', os.getuid(), -1); result = 'changed'",
    "utime": "os.utime('/tmp/byref-sentinel', (0, 0)); result = 'changed'",
    "mkfifo": "os.mkfifo('/tmp/byref-breach'); result = 'made'",
    "setxattr": "os.setxattr('/tmp/byref-sentinel', 'user.x', b'1'); result = 'set'",
    "getxattr": "result = os.listxattr('/tmp/byref-sentinel') or 'readable'",
    "sqlite": "import sqlite3; c = sqlite3.connect('/tmp/byref-breach'); c.execute('create table t(a)'); c.commit(); result = 'written'",
    "dlopen": "result = ctypes.CDLL('libresolv.so.2')._name",
    "import of what is not loaded": "import colorsys; result = colorsys.__name__",
    "read a module's source": "import inspect; result = inspect.getsource(inspect)",
    "pandas reads a file": "import pandas; result = pandas.read_csv('/etc/passwd', sep=':').to_string()",
    "pandas writes a file": "import pandas; pandas.DataFrame([1]).to_csv('/tmp/byref-breach'); result = 'written'",
    "numpy memmap": "import numpy; result = numpy.memmap('/etc/passwd', mode='r').tobytes().decode()",
    "arrow reads a file": "import pyarrow; result = pyarrow.memory_map('/etc/passwd').read().decode()",
    "arrow lists a directory": "import pyarrow.fs as f; result = [i.path for i in f.LocalFileSystem().get_file_info(f.FileSelector('/'))]",
    **_calls("name_to_handle_at", "-100, b'/etc/passwd', ctypes.create_string_buffer(128), None, 0"),
    **_calls("open_by_handle_at", "-100, ctypes.create_string_buffer(128), 0"),
    **_calls("fanotify_init", "0, 0"),
    **_calls("inotify_init1", "0"),
    **_calls("eventfd2", "0, 0"),
    **_calls("pipe2", "ctypes.create_string_buffer(8), 0"),
    **_calls("epoll_create1", "0"),
    **_calls("timerfd_create", "0, 0"),
    **_calls("signalfd4", "-1, b'\\0' * 8, 8, 0"),
}

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
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'id'])",
    "execveat": f"result = call({number('execveat')}, -100, b'/bin/true', None, None, 0)",
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
    "rt_sigqueueinfo": f"result = ['sent', call({number('rt_sigqueueinfo')}, os.getppid(), 9, b'\\0' * 128)]",
    "pidfd_open": "result = os.pidfd_open(os.getppid())",
    "pidfd_send_signal": f"result = ['sent', call({number('pidfd_send_signal')}, 0, 9, None, 0)]",
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
b = ctypes.create_string_buffer(64)
v = struct.pack('QQ', ctypes.addressof(b), 64)
result = call({number("process_vm_readv")}, os.getppid(), v, 1, struct.pack('QQ', id(b), 64), 1, 0)
""",
    "write the zygote's memory": f"""
b = ctypes.create_string_buffer(64)
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
    "POSIX timer": f"result = ['made', call({number('timer_create')}, 1, None, ctypes.create_string_buffer(8))]",
    "wait for a sibling": "result = os.waitpid(-1, os.WNOHANG)",
    "kcmp": f"result = ['same', call({number('kcmp')}, os.getpid(), os.getppid(), 1, 0, 0)]",
    "become root": "os.setuid(0); result = 'root'",
    "become another": "os.setresgid(0, 0, 0); result = 'root'",
    "capabilities": f"result = ['set', call({number('capset')}, struct.pack('Ii', 0x20080522, 0), b'\\xff' * 24)]",
}

KERNEL = {
    **_calls("bpf", "0, b'\\0' * 128, 128"),
    **_calls("io_uring_setup", "1, ctypes.create_string_buffer(128)"),
    **_calls("io_uring_enter", "0, 0, 0, 0, None, 0"),
    **_calls("keyctl", "0, -3, 1"),
    **_calls("add_key", "b'user', b'a', b'b', 1, -3"),
    **_calls("request_key", "b'user', b'a', None, -3"),
    **_calls("unshare", "0x10000000", "0x40000000", "0x20000000"),
    **_calls("setns", "0, 0"),
    **_calls("perf_event_open", "b'\\0' * 128, 0, -1, -1, 0"),
    **_calls("userfaultfd", "0"),
    **_calls("seccomp", "0, 0, None", "2, 0, b'\\0' * 4"),
    **_calls("mount", "b'none', b'/tmp', b'tmpfs', 0, None"),
    **_calls("umount2", "b'/proc', 2"),
    **_calls("pivot_root", "b'.', b'.'"),
    **_calls("chroot", "b'/tmp'"),
    **_calls("open_tree", "-100, b'/', 0"),
    **_calls("fsopen", "b'tmpfs', 0"),
    **_calls("init_module", "b'', 0, b''"),
    **_calls("delete_module", "b'x', 0"),
    **_calls("kexec_load", "0, 0, None, 0"),
    **_calls("reboot", "0xfee1dead, 672274793, 0x89abcdef, None"),
    **_calls("swapon", "b'/tmp/x', 0"),
    **_calls("acct", "None"),
    **_calls("quotactl", "0, None, 0, None"),
    **_calls("syslog", "10, None, 0"),
    **_calls("sethostname", "b'x', 1"),
    **_calls("settimeofday", "None, None"),
    **_calls("adjtimex", "ctypes.create_string_buffer(256)"),
    **_calls("personality", "0x400000"),
    **_calls("vhangup", ""),
    **_calls("iopl", "3"),
    **_calls("ioperm", "0, 1, 1"),
    **_calls("modify_ldt", "0, ctypes.create_string_buffer(64), 64"),
    **_calls("shmget", "0, 4096, 0o1777"),
    **_calls("msgget", "0, 0o1777"),
    **_calls("semget", "0, 1, 0o1777"),
    **_calls("mq_open", "b'x', 0o102, 0o600, None"),
    **_calls("landlock_create_ruleset", "None, 0, 1"),
    **_calls("process_madvise", "0, None, 0, 0, 0"),
    **_calls("get_robust_list", "1, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)"),
    **_calls("membarrier", "0, 0"),
    **_calls("ioctl", "0, 0x5412, b'x'", "1, 0x5413, ctypes.create_string_buffer(8)"),
    # The same calls by their x32 numbers: a filter that knows only the native ones lets them through.
    **{
        f"x32 {name}": f"result = ['{name}', call({number(name) | 0x40000000}, {arguments})]"
        for name, arguments in [
            ("getpid", "0"),
            ("openat", "-100, b'/etc/passwd', 0"),
            ("socket", "2, 1, 0"),
            ("fork", "0"),
            ("mmap", "0, 4096, 7, 0x22, -1, 0"),
            ("stat", "b'/etc/passwd', ctypes.create_string_buffer(256)"),
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
b = ctypes.create_string_buffer(8192)
result = ['executable', call({number("mprotect")}, (ctypes.addressof(b) + 4095) & ~4095, 4096, 7)]
""",
    "made executable with a key": f"""
b = ctypes.create_string_buffer(8192)
result = ['executable', call({number("pkey_mprotect")}, (ctypes.addressof(b) + 4095) & ~4095, 4096, 7, -1)]
""",
    "shared and executable": f"result = ['mapped', call({number('mmap')}, 0, 4096, 7, 0x21, -1, 0)]",
    "high bits beside the flag": f"result = ['mapped', call({number('mmap')}, 0, 4096, 7 | 1 << 32, 0x22, -1, 0)]",
    "remap": f"result = ['mapped', call({number('remap_file_pages')}, 0, 4096, 4, 0, 0)]",
    "locked memory": f"b = ctypes.create_string_buffer(1 << 20); result = ['locked', call({number('mlock')}, ctypes.addressof(b), 1 << 20)]",
    "all memory locked": f"result = ['locked', call({number('mlockall')}, 1)]",
    "execute only through shmat": f"result = ['mapped', call({number('shmat')}, 0, 0, 0o100000)]",
}

SURROUNDINGS = {
    "environment": "result = dict(os.environ) or None",
    "environment of C": """
entries = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')
result = entries[0].decode() if entries and entries[0] else None
""",
    "arguments": "result = [a for a in sys.argv if a] or None",
    "host name": "result = os.uname().nodename",
    "host name through platform": "import platform; result = platform.node() or None",
    "root": "result = 'root' if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()) else None",
    "groups": "result = os.getgroups() or None",
    "standard input": "result = os.read(0, 1).decode() or 'readable'",
    "standard output": "os.write(1, b'x'); result = 'writable'",
    "standard error": "os.write(2, b'x'); result = 'writable'",
    "descriptors": """
open_ones = []
for fd in range(4096):
    try: os.get_inheritable(fd); open_ones.append(fd)
    except OSError: pass
result = open_ones if len(open_ones) != 1 else None
""",
    "reading the reply pipe": """
for fd in range(4096):
    try: result = os.read(fd, 1).decode() or 'readable'
    except OSError: pass
""",
    "limits": """
import resource as r
result = [n for n in ('RLIMIT_CORE', 'RLIMIT_FSIZE', 'RLIMIT_NPROC', 'RLIMIT_NOFILE', 'RLIMIT_MEMLOCK')
          if r.getrlimit(getattr(r, n)) != (0, 0)] or None
""",
    "unlimited memory": "import resource as r; result = 'unlimited' if r.getrlimit(r.RLIMIT_AS)[1] in (-1, r.RLIM_INFINITY) else None",
    "unlimited time": "import resource as r; result = 'unlimited' if r.getrlimit(r.RLIMIT_CPU)[1] in (-1, r.RLIM_INFINITY) else None",
}

GROUPS = {
    "network": NETWORK,
    "files": FILES,
    "processes": PROCESSES,
    "kernel": KERNEL,
    "memory": MEMORY,
    "surroundings": SURROUNDINGS,
}
ATTACKS = {
    f"{group}: {name}": PRELUDE + source for group, attacks in GROUPS.items() for name, source in attacks.items()
}
