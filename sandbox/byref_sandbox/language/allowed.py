"""The allow-lists: which names code may import, module by module."""

from __future__ import annotations

from byref_sandbox.code.words import words
from byref_sandbox.language.refusal import KEPT, NO_SPREADSHEETS

WHOLE = words("math cmath itertools statistics heapq numbers errno reprlib sched")
"""Modules whose every public name is harmless."""

TAKEN = {
    "re": """compile search match fullmatch split findall finditer sub subn escape purge error PatternError Pattern Match
        NOFLAG I IGNORECASE M MULTILINE S DOTALL X VERBOSE A ASCII U UNICODE RegexFlag""",
    "json": "dumps loads dump load JSONDecodeError JSONEncoder JSONDecoder",
    "datetime": "date datetime time timedelta timezone tzinfo UTC MINYEAR MAXYEAR",
    "random": """Random random uniform randint choice choices sample shuffle seed gauss normalvariate lognormvariate betavariate
        expovariate gammavariate paretovariate weibullvariate vonmisesvariate randrange triangular getrandbits randbytes
        binomialvariate getstate setstate SystemRandom""",
    "decimal": """Decimal getcontext setcontext localcontext Context ROUND_HALF_UP ROUND_HALF_EVEN ROUND_DOWN ROUND_UP ROUND_FLOOR
        ROUND_CEILING ROUND_HALF_DOWN ROUND_05UP DecimalException InvalidOperation DivisionByZero Inexact Rounded
        Overflow Underflow Clamped Subnormal FloatOperation BasicContext ExtendedContext DefaultContext MAX_PREC
        MAX_EMAX MIN_EMIN DivisionImpossible DivisionUndefined InvalidContext MIN_ETINY HAVE_CONTEXTVAR HAVE_THREADS""",
    "fractions": "Fraction",
    "string": """ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation printable whitespace
        capwords Template""",
    "textwrap": "dedent indent fill wrap shorten TextWrapper",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "copy": "copy Error",
    "time": """time perf_counter monotonic time_ns perf_counter_ns monotonic_ns process_time strftime strptime localtime gmtime
        mktime asctime ctime sleep struct_time thread_time thread_time_ns process_time_ns timezone altzone daylight
        tzname""",
    "unicodedata": """normalize category name lookup combining numeric decimal digit bidirectional east_asian_width is_normalized
        mirrored decomposition unidata_version""",
    "calendar": """month_name month_abbr day_name day_abbr monthrange monthcalendar isleap leapdays weekday weekheader month
        calendar timegm setfirstweekday firstweekday MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY Calendar
        TextCalendar JANUARY FEBRUARY HTMLCalendar IllegalMonthError IllegalWeekdayError prmonth prcal week format
        formatstring error Month Day""",
    "hashlib": """md5 sha1 sha224 sha256 sha384 sha512 sha3_256 sha3_512 blake2b blake2s new sha3_224 sha3_384 shake_128 shake_256
        pbkdf2_hmac scrypt algorithms_available algorithms_guaranteed""",
    "base64": """b64encode b64decode b32encode b32decode b16encode b16decode b85encode b85decode urlsafe_b64encode
        urlsafe_b64decode a85encode a85decode encodebytes decodebytes standard_b64encode standard_b64decode b32hexencode
        b32hexdecode""",
    "binascii": "hexlify unhexlify crc32 b2a_hex a2b_hex Error a2b_base64 b2a_base64 a2b_qp b2a_qp crc_hqx Incomplete",
    "tomllib": "loads TOMLDecodeError",
    "zlib": """crc32 adler32 compress decompress error compressobj decompressobj MAX_WBITS DEFLATED DEF_MEM_LEVEL DEF_BUF_SIZE
        Z_BEST_COMPRESSION Z_BEST_SPEED Z_DEFAULT_COMPRESSION Z_NO_COMPRESSION Z_DEFAULT_STRATEGY Z_FINISH Z_SYNC_FLUSH
        Z_FULL_FLUSH Z_NO_FLUSH ZLIB_VERSION""",
    "gzip": "compress decompress BadGzipFile",
    "bz2": "compress decompress BZ2Compressor BZ2Decompressor",
    "lzma": """compress decompress LZMAError LZMACompressor LZMADecompressor FORMAT_XZ FORMAT_ALONE FORMAT_RAW FORMAT_AUTO
        CHECK_NONE CHECK_CRC32 CHECK_CRC64 CHECK_SHA256 PRESET_DEFAULT PRESET_EXTREME""",
    "codecs": """encode decode BOM_UTF8 BOM_UTF16_LE BOM_UTF16_BE BOM BOM_BE BOM_LE BOM_UTF16 BOM_UTF32 BOM_UTF32_LE BOM_UTF32_BE
        iterencode iterdecode""",
    "struct": "pack unpack unpack_from calcsize iter_unpack Struct error",
    "hmac": "new digest compare_digest HMAC",
    "secrets": "choice randbelow randbits token_bytes token_hex token_urlsafe compare_digest SystemRandom",
    "colorsys": "rgb_to_hsv hsv_to_rgb rgb_to_hls hls_to_rgb rgb_to_yiq yiq_to_rgb",
    "graphlib": "TopologicalSorter CycleError",
    "queue": "Queue LifoQueue PriorityQueue SimpleQueue Empty Full",
    "timeit": "default_timer",
    "ipaddress": """ip_address ip_network ip_interface IPv4Address IPv4Network IPv4Interface IPv6Address IPv6Network IPv6Interface
        AddressValueError NetmaskValueError collapse_addresses summarize_address_range v4_int_to_packed v6_int_to_packed
        get_mixed_type_key""",
    "email.utils": """parsedate_to_datetime parsedate parsedate_tz parseaddr formataddr getaddresses format_datetime formatdate quote
        unquote mktime_tz""",
    "http": "HTTPStatus HTTPMethod",
    "shlex": "split join quote",
    "fnmatch": "fnmatch fnmatchcase filter translate",
    "posixpath": "basename dirname join split splitext normpath commonprefix commonpath isabs sep extsep splitroot",
    "ntpath": """basename dirname join split splitext splitdrive normpath commonprefix isabs sep extsep commonpath normcase
        splitroot pardir curdir pathsep altsep""",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "html.parser": "HTMLParser",
    "html.entities": "name2codepoint codepoint2name html5 entitydefs",
    "xml.etree.ElementTree": """fromstring fromstringlist XML tostring tostringlist Element SubElement Comment QName indent iselement
        dump ParseError""",
    "dateutil.relativedelta": "relativedelta MO TU WE TH FR SA SU",
    "dateutil.parser": "parse isoparse isoparser parserinfo ParserError UnknownTimezoneWarning",
    "dateutil.rrule": """rrule rruleset YEARLY MONTHLY WEEKLY DAILY HOURLY MINUTELY SECONDLY MO TU WE TH FR SA SU""",
    "dateutil.easter": "easter",
    "dateutil.tz": "UTC tzutc tzoffset",
    "uuid": "UUID uuid3 uuid4 uuid5 NAMESPACE_DNS NAMESPACE_URL NAMESPACE_OID NAMESPACE_X500",
    "io": "StringIO BytesIO UnsupportedOperation SEEK_SET SEEK_CUR SEEK_END DEFAULT_BUFFER_SIZE",
    "array": "typecodes",
    "csv": """writer DictReader DictWriter field_size_limit QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC QUOTE_STRINGS
        QUOTE_NOTNULL Error Dialect excel excel_tab unix_dialect Sniffer get_dialect list_dialects""",
    "difflib": """get_close_matches SequenceMatcher ndiff unified_diff context_diff Differ HtmlDiff restore diff_bytes
        IS_LINE_JUNK IS_CHARACTER_JUNK Match""",
    "html": "escape unescape",
    "json.decoder": "JSONDecodeError JSONDecoder",
    "json.encoder": "JSONEncoder",
    "zipfile": """BadZipFile LargeZipFile error ZIP_STORED ZIP_DEFLATED ZIP_BZIP2 ZIP_LZMA""",
    "sqlite3": """Error DatabaseError DataError IntegrityError InterfaceError InternalError NotSupportedError OperationalError
        ProgrammingError Warning PARSE_DECLTYPES PARSE_COLNAMES sqlite_version sqlite_version_info complete_statement apilevel
        paramstyle threadsafety""",
    "configparser": """Error NoSectionError NoOptionError DuplicateSectionError DuplicateOptionError ParsingError
        MissingSectionHeaderError InterpolationError InterpolationMissingOptionError InterpolationSyntaxError
        InterpolationDepthError BasicInterpolation ExtendedInterpolation SectionProxy DEFAULTSECT MAX_INTERPOLATION_DEPTH""",
    "keyword": "iskeyword issoftkeyword kwlist softkwlist",
    "ast": "literal_eval",
    "contextlib": """contextmanager suppress closing nullcontext ExitStack ContextDecorator AbstractContextManager asynccontextmanager aclosing
        AsyncExitStack AsyncContextDecorator AbstractAsyncContextManager""",
    "urllib.parse": """urlparse urlsplit urlunparse urlunsplit urljoin parse_qs parse_qsl quote quote_plus unquote unquote_plus
        urlencode urldefrag quote_from_bytes unquote_to_bytes ParseResult SplitResult DefragResult""",
    "zoneinfo": "ZoneInfoNotFoundError",
    "functools": "reduce partial partialmethod lru_cache cache cmp_to_key cached_property",
    "collections": "Counter defaultdict OrderedDict deque ChainMap UserDict UserList",
    "pprint": "pformat pp pprint PrettyPrinter isreadable isrecursive saferepr",
    "warnings": "filterwarnings simplefilter warn resetwarnings",
    "types": """MappingProxyType GeneratorType CoroutineType AsyncGeneratorType NoneType EllipsisType NotImplementedType UnionType
        MethodType BuiltinFunctionType GenericAlias BuiltinMethodType""",
    "abc": "ABC abstractmethod",
    "dataclasses": "field asdict astuple replace fields is_dataclass FrozenInstanceError KW_ONLY MISSING InitVar",
    "enum": "auto member nonmember unique",
    "sys": """maxsize float_info byteorder version version_info platform hexversion int_info hash_info float_repr_style
        maxunicode copyright api_version""",
    "typing": """Any AnyStr Callable ClassVar Collection Container Counter DefaultDict Deque Dict Final FrozenSet Generator
        Generic Hashable Iterable Iterator List Literal Mapping MutableMapping MutableSequence MutableSet NewType
        NoReturn Never Optional OrderedDict ParamSpec Protocol Required NotRequired Self Sequence Set Sized SupportsFloat
        SupportsInt Text Tuple TypeAlias TypeVar Union Annotated cast overload final override no_type_check
        TYPE_CHECKING assert_never assert_type runtime_checkable is_typeddict TypeGuard Concatenate LiteralString
        Unpack TypeVarTuple AbstractSet KeysView ValuesView ItemsView MappingView Reversible ChainMap ContextManager Coroutine
        Awaitable AsyncIterator AsyncIterable AsyncGenerator AsyncContextManager IO TextIO BinaryIO Pattern Match SupportsAbs SupportsIndex SupportsRound SupportsBytes
        SupportsComplex reveal_type ReadOnly TypeIs""",
}
"""By module, the names that code may use. What reads files, makes code or gives out classes and modules without a guard is left out
(`string.Formatter`, `typing.get_type_hints`, `functools.singledispatch`, `uuid.uuid1`, …)."""

BASES = {
    "builtins": "object int float str bytes list dict tuple set frozenset",
    "abc": "ABC",
    "typing": "Generic Protocol",
    "json": "JSONEncoder",
    "collections": "OrderedDict defaultdict Counter deque UserDict UserList",
    "contextlib": "ContextDecorator AbstractContextManager AsyncContextDecorator AbstractAsyncContextManager",
    "datetime": "tzinfo date datetime",
    "string": "Template",
    "html.parser": "HTMLParser",
    "collections.abc": """AsyncGenerator AsyncIterable AsyncIterator Awaitable Callable Collection Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView
        Mapping MappingView MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView""",
}
"""What a class may inherit from, besides exceptions, enumerations and the code's own classes. None has a dangerous attribute."""

NUMPY_HIDDEN = words("""load save savez savez_compressed savetxt fromfile fromregex memmap DataSource lib ctypeslib f2py test testing
    core show_config show_runtime get_include info source bmat nditer nested_iters from_dlpack rec typing exceptions dtypes
    distutils matlib flatiter record""")
_PROCESSES = "threads and processes are not available: a plain loop does the same here"
_NO_RIGHTS = "files here are in memory and have no rights"
HINTS = {
    "os": {
        **dict.fromkeys(words("system popen fork kill getpid execv spawnl startfile"), _PROCESSES),
        **dict.fromkeys(words("chdir fchdir"), "name the files with their folders"),
        **dict.fromkeys(words("chmod chown link symlink umask"), _NO_RIGHTS),
        **dict.fromkeys(words("open read write pipe dup"), "use open(name)"),
    },
    "shutil": {"disk_usage": "files here are in memory", "which": _PROCESSES, "chown": _NO_RIGHTS},
    "sys": {
        "argv": "there is no command line: put the values into the code",
        "stdin": "nobody is there to answer: put the values into the code",
        "path": "use an import statement",
        "modules": "use an import statement",
    },
    "asyncio": {
        "create_subprocess_exec": "there are no processes",
        "create_subprocess_shell": "there are no processes",
        "open_connection": "there is no network",
        "start_server": "there is no network",
        "run_coroutine_threadsafe": "there are no threads: await the coroutine",
    },
    "inspect": {
        **dict.fromkeys(
            words("getsource getsourcelines getsourcefile getfile findsource"), "the code is in the calls that made it"
        ),
        **dict.fromkeys(
            words("currentframe stack trace getouterframes getinnerframes"),
            "traceback.format_exc() tells where an error was",
        ),
    },
    "typing": {"get_type_hints": "use the class's __annotations__"},
    "string": {"Formatter": "use str.format() or an f-string"},
}
"""What to use instead of a name that is left out."""
NUMPY_HINTS = {
    "memmap": "files cannot be mapped here: use np.zeros() or np.array()",
    "nested_iters": "use np.nditer(), or np.ndenumerate(array)",
    "info": "dir(value) names what a value has",
}
NUMPY_PARTS = ("linalg", "fft", "polynomial", "strings", "emath", "ma")

NUMPY_CHECKS = words("""assert_equal assert_allclose assert_array_equal assert_almost_equal assert_array_almost_equal
    assert_array_less""")

PANDAS_HIDDEN = words("""HDFStore ExcelFile ExcelWriter to_pickle test show_versions plotting io core compat util testing arrays api
    errors offsets tseries""")
_NO_TABLES_OF_BYTES = "have the tool return JSON or CSV"
_NO_CALAMINE = f"spreadsheets need python-calamine, which is not installed here (byref[tables]): {_NO_TABLES_OF_BYTES}"
PANDAS_HINTS = {
    "ExcelWriter": NO_SPREADSHEETS,
    "HDFStore": KEPT,
    "ExcelFile": _NO_CALAMINE,
    "read_excel": _NO_CALAMINE,
    "read_parquet": f"Parquet cannot be read here: {_NO_TABLES_OF_BYTES}",
    "read_sql_table": "use pd.read_sql('SELECT * FROM name', connection)",
    "read_html": "html.parser.HTMLParser takes HTML apart, xml.etree.ElementTree.fromstring(text) what is well-formed",
    "plotting": "the numbers themselves are shown as a table",
}
PANDAS_API_HINTS = {"extensions": "write functions that take the table, and use frame.pipe(f)"}
PANDAS_READERS = ("read_csv", "read_json", "read_table", "read_fwf")
PANDAS_QUERIES = ("read_sql", "read_sql_query")
PANDAS_CHECKS = words("assert_frame_equal assert_series_equal assert_index_equal assert_extension_array_equal")
PANDAS_HOLIDAYS = words("""AbstractHolidayCalendar Holiday USFederalHolidayCalendar nearest_workday next_monday next_monday_or_tuesday
    previous_friday sunday_to_monday weekend_to_monday previous_workday next_workday before_nearest_workday after_nearest_workday
    USMemorialDay USLaborDay USColumbusDay USThanksgivingDay USMartinLutherKingJr USPresidentsDay GoodFriday EasterMonday
    MO TU WE TH FR SA SU""")
PYARROW_TYPES = words("""null bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 string large_string utf8
    binary large_binary date32 date64 time32 time64 timestamp duration decimal128 decimal256 list_ large_list struct map_ dictionary
    field DataType Field""")
"""Only types: arrays of Arrow give out their memory by address."""
WHERE_INSTALLED = {
    "tabulate": words("tabulate tabulate_formats simple_separated_format SEPARATING_LINE"),
    "natsort": words(
        "natsorted realsorted index_natsorted index_realsorted natsort_keygen natsort_key order_by_index ns"
    ),
    "texttable": words("Texttable"),
}
"""Packages of pure Python that were read: these names of them reach nothing but what they are given."""
PANDAS_OPTIONS = ("set_option", "get_option", "reset_option", "option_context")
