"""The inspector: pages that show people what sessions did, why, and what it cost. They change nothing.

Every text on them was written by strangers. Templates escape all of it, `sight` says who sees what and how much, and the
pages' policy lets a browser run and load nothing but the files of this package.
"""

from byref.service.inspector.application import Inspector
from byref.service.inspector.doors import OneTimeLink, SignIn
from byref.service.inspector.sight import Redact

__all__ = ["Inspector", "OneTimeLink", "Redact", "SignIn"]
