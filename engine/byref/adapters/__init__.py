"""byref in agent frameworks: one package for each framework; a package needs only the extra of its framework.

A host may rely on the following with every framework; `tests/contracts/test_adapters.py` checks it for every adapter:

- Threads: one instance serves any number of agents, runs and conversations at once, on any threads and event loops. Work of
  the engine runs on threads, never on an event loop. A cancelled run leaves only whole steps in the ledger.
- Ownership: the engine belongs to the host, which closes it after the last run. An adapter closes nothing of it.
- Conversations: the tenant and the session are texts, or functions of the framework's run. Names that differ in one character
  are different conversations. A conversation can go on in any process that has the same database.
- What the model reads: the result of `Session.process` for a tool's output; small outputs stay in the framework's form.
  References in arguments are resolved before the tool runs, and the transcript keeps them as the model wrote them.
- Errors: the constructor raises ConfigurationError if it gets no `byref.Engine`. A mistake of the model becomes the answer to
  its call, and the tool is not run. The framework treats a tool's own exception as it always does.
- Database away: tools run, and the model reads their outputs whole or cut; calls that need stored data are answered with an
  error. With `Policy(on_storage_failure="raise")` a StorageFailure ends the run, if the framework permits it.
"""
