"""Attacks on the jail alone: plain CPython that sets `result` to its loot if it gets any.

Each is written so that the loot is plain to see without the jail, or so that what it does is: a file, a dead process, a
stolen answer. They find what a careless parent would leave them: 0 is a datagram socket with a letter in it, 1 a
terminal, 2 a pipe, 3 a listening socket that somebody waits at, and at port 47011 there is a server.
System calls are given by name and numbered for this machine; `call` returns what the kernel returned, and raises
OSError for what it refused.
"""

from __future__ import annotations

from jail_attacks_kernel import KERNEL, MEMORY, PROCESSES
from jail_prelude import PRELUDE, calls, number

PORT = 47011

NETWORK = {
    **{
        f"socket({family}, {kind}, {protocol})": f"result = call({number('socket')}, {family}, {kind}, {protocol})"
        for family, kind, protocol in [
            (1, 1, 0),  # unix
            (1, 2, 0),
            (1, 5, 0),
            (2, 1, 0),  # IPv4
            (2, 2, 0),
            (2, 3, 1),  # raw
            (2, 1, 262),  # multipath
            (10, 1, 0),  # IPv6
            (10, 2, 0),
            (10, 3, 58),
            (16, 3, 0),  # netlink: routes
            (16, 3, 9),  # audit
            (16, 3, 15),  # events of the kernel
            (17, 3, 768),  # packet
            (29, 3, 1),  # CAN
            (31, 3, 1),  # Bluetooth
            (38, 5, 0),  # kernel crypto
            (40, 1, 0),  # to the hypervisor
            (40, 2, 0),
            (44, 3, 0),  # XDP
        ]
    },
    "python socket": "import socket; result = socket.socket().fileno()",
    "connect to a server": f"import socket; result = socket.create_connection(('127.0.0.1', {PORT}), 1).getpeername()",
    "datagram to a server": f"import socket; result = socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {PORT}))",
    "listen": "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); result = s.getsockname()",
    "resolve a name": "import socket; result = socket.getaddrinfo('localhost', 80)",
    "interfaces": "import socket; result = socket.if_nameindex()",
    "abstract unix socket": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0byref'); result = 'bound'",
    "unix socket in a folder": "import socket; s = socket.socket(1); s.bind('/tmp/byref-breach'); result = 'bound'",
    "socketpair": "import socket; result = socket.socketpair()[0].fileno()",
    "url": f"import urllib.request; result = urllib.request.urlopen('http://127.0.0.1:{PORT}/').read()",
    "asyncio": f"""
import asyncio
async def main():
    reader, writer = await asyncio.open_connection('127.0.0.1', {PORT})
    return writer.get_extra_info('peername')
result = asyncio.run(main())
""",
    **calls("sendto", "0, b'x', 1, 0, None, 0"),
    **calls("connect", "0, bytes(16), 16"),
    **calls("bind", "0, struct.pack('H', 1), 2"),
    **calls("listen", "3, 5"),
    **calls("accept4", "3, None, None, 0"),
    **calls("accept", "3, None, None"),
    **calls("recvfrom", "0, buffer(64), 64, 0x40, None, None"),
    **calls("shutdown", "0, 1"),
    **calls("getsockname", "0, buffer(128), buffer(4, struct.pack('i', 128))"),
    **calls("getpeername", "0, buffer(128), buffer(4, struct.pack('i', 128))"),
    **calls("setsockopt", "0, 1, 2, struct.pack('i', 1), 4"),
    **calls("getsockopt", "0, 1, 17, buffer(12), buffer(4, struct.pack('i', 12))"),
    "sendmsg": f"b = buffer(1); v = struct.pack('PN', ctypes.addressof(b), 1); k = ctypes.create_string_buffer(v);"
    f" m = struct.pack('PIPNPNi', 0, 0, ctypes.addressof(k), 1, 0, 0, 0); result = ['sent', call({number('sendmsg')}, 0, m, 0)]",
    "recvmsg": f"b = buffer(9); v = struct.pack('PN', ctypes.addressof(b), 9); k = ctypes.create_string_buffer(v);"
    f" m = buffer(56, struct.pack('PIPNPNi', 0, 0, ctypes.addressof(k), 1, 0, 0, 0)); result = ['got', call({number('recvmsg')}, 0, m, 0x40)]",
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
    "import of what is not loaded": "import zipapp as m; result = m.__name__",
    "read a module's source": "import inspect; result = inspect.getsource(inspect)",
    "pandas reads a file": "import pandas; result = pandas.read_csv('/etc/passwd', sep=':').to_string()",
    "pandas writes a file": "import pandas; pandas.DataFrame([1]).to_csv('/tmp/byref-breach'); result = 'written'",
    "numpy memmap": "import numpy; result = numpy.memmap('/etc/passwd', mode='r').tobytes().decode()",
    "arrow reads a file": "import pyarrow; result = pyarrow.memory_map('/etc/passwd').read().decode()",
    "arrow lists a directory": "import pyarrow.fs as f; result = [i.path for i in f.LocalFileSystem().get_file_info(f.FileSelector('/'))]",
    **calls("name_to_handle_at", "-100, b'/etc/passwd', buffer(136, struct.pack('Ii', 128, 0)), buffer(4), 0"),
    "open_by_handle_at": f"""
h = buffer(136, struct.pack('Ii', 128, 0))
call({number("name_to_handle_at")}, -100, b'/tmp/byref-sentinel', h, buffer(4), 0)
result = os.read(call({number("open_by_handle_at")}, os.open('/tmp', 0), h, 0), 10)
""",
    **calls("fanotify_init", "0, 0"),
    **calls("inotify_init1", "0"),
    **calls("eventfd2", "0, 0"),
    **calls("pipe2", "ctypes.create_string_buffer(8), 0"),
    **calls("epoll_create1", "0"),
    **calls("timerfd_create", "0, 0"),
    **calls("signalfd4", "-1, b'\\0' * 8, 8, 0"),
    # What changes a folder, each by its newest call as well.
    **{
        f"{name}({arguments})": f"call({number(name)}, {arguments}); result = ['{name}', 'done']"
        for name, arguments in [
            ("mknod", "b'/tmp/byref-breach', 0o10644, 0"),
            ("mknodat", "-100, b'/tmp/byref-breach', 0o100644, 0"),
            ("mkdirat", "-100, b'/tmp/byref-breach', 0o755"),
            ("linkat", "-100, b'/tmp/byref-sentinel', -100, b'/tmp/byref-breach', 0"),
            ("symlinkat", "b'/etc/passwd', -100, b'/tmp/byref-breach'"),
            ("unlinkat", "-100, b'/tmp/byref-sentinel', 0"),
            ("rmdir", "b'/tmp/byref-folder'"),
            ("renameat", "-100, b'/tmp/byref-sentinel', -100, b'/tmp/byref-breach'"),
            ("renameat2", "-100, b'/tmp/byref-sentinel', -100, b'/tmp/byref-folder', 2"),
            ("fchmodat", "-100, b'/tmp/byref-sentinel', 0o777"),
            ("fchmodat2", "-100, b'/tmp/byref-sentinel', 0o777, 0"),
            ("fchownat", "-100, b'/tmp/byref-sentinel', -1, -1, 0"),
            ("lchown", "b'/tmp/byref-sentinel', -1, -1"),
            ("utimensat", "-100, b'/tmp/byref-sentinel', None, 0"),
            ("futimesat", "-100, b'/tmp/byref-sentinel', None"),
            ("lsetxattr", "b'/tmp/byref-sentinel', b'user.y', b'1', 1, 0"),
            ("statfs", "b'/tmp', buffer(256)"),
            ("faccessat2", "-100, b'/tmp/byref-sentinel', 4, 0"),
            ("sync", ""),
            ("umask", "0"),
        ]
    },
    # What uses descriptors that a careless parent left open.
    "read and write what was left open": "os.write(1, b'x'); result = os.read(0, 1)",
    "duplicate what was left open": "os.dup2(0, 9); result = os.fstat(9).st_ino",
    **calls("dup3", "1, 9, 0"),
    **calls("fcntl", "1, 0, 10", "1, 1030, 10", "2, 1031, 8192", "0, 1025, 1", "1, 8, 0"),
    **calls("splice", "0, None, 2, None, 1, 2"),
    **calls("vmsplice", "2, None, 0, 0"),
    **calls("syncfs", "1"),
    **calls("flock", "1, 2"),
    **calls("fchmod", "1, 0o666"),
    **calls("fchown", "1, -1, -1"),
    **calls("fstatfs", "1, buffer(256)"),
    **calls("io_setup", "1, buffer(8)"),
    **calls("close_range", "100, 101, 0"),
    "sendfile": f"result = ['sent', call({number('sendfile')}, 2, os.open('/tmp/byref-sentinel', 0), None, 9)]",
    "copy_file_range": f"a = os.open('/tmp/byref-sentinel', 0); b = os.open('/tmp/byref-breach', 66); result = ['copied', call({number('copy_file_range')}, a, None, b, None, 9, 0)]",
    "stat by an empty path": "result = os.stat(0).st_mode",
    "its own executable": "result = open('/proc/self/exe', 'rb').read(4)",
    "its own memory": "f = open('/proc/self/mem', 'r+b', 0); f.seek(id(None)); result = f.read(8)",
    "its own threads": "result = os.listdir('/proc/self/task')",
    "the descriptors of its parent": "result = os.listdir(f'/proc/{os.getppid()}/fd')",
    "all processes": "result = [p for p in os.listdir('/proc') if p.isdigit()]",
    "secrets of the machine": "result = open('/proc/sys/kernel/random/boot_id').read()",
    "cores": "result = open('/proc/cpuinfo').read()",
    "folder of the user": "result = os.path.expanduser('~root') if os.listdir(os.path.expanduser('~root')) is not None else None",
    "users": "import pwd; result = pwd.getpwuid(0).pw_name",
    "time zones on disk": "result = open('/usr/share/zoneinfo/Europe/Berlin', 'rb').read(4) if os.path.exists('/usr/share/zoneinfo') else open('/etc/hosts').read()",
    "mmap of a file": "import mmap; f = os.open('/etc/passwd', 0); result = mmap.mmap(f, 0, prot=1).read(10)",
    "logging to a file": "import logging; logging.basicConfig(filename='/tmp/byref-breach'); logging.warning('x'); result = 'logged'",
    "numpy saves": "import numpy; numpy.save('/tmp/byref-breach', numpy.ones(3)); result = 'saved'",
    "numpy reads text": "import numpy; result = numpy.fromfile('/etc/passwd', dtype='u1').tobytes()[:9]",
    "parquet": "import pandas; pandas.DataFrame({'a': [1]}).to_parquet('/tmp/byref-breach'); result = 'saved'",
    "a pickle": "import pandas; pandas.Series([1]).to_pickle('/tmp/byref-breach'); result = 'saved'",
    "an archive": "import zipfile; zipfile.ZipFile('/tmp/byref-breach', 'w').writestr('a', 'b'); result = 'saved'",
    "faulthandler": "import faulthandler; faulthandler.enable(open('/tmp/byref-breach', 'w')); result = 'open'",
    "a core by choice": "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9)); result = 'set'",
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
    try: os.set_blocking(fd, False)
    except OSError: pass
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
