"""byref in agent frameworks: a package for each, which needs the extra of its framework alone.

What a host may rely on, whichever the framework; `tests/contracts/test_adapters.py` holds every adapter to it:

- Threads: one instance serves any number of agents, runs and conversations at once, on any threads and event loops. What it
  asks of the engine runs on threads, never on an event loop. A run that is cancelled leaves whole steps.
- Ownership: the engine is the host's, which closes it after the last run. An adapter closes nothing of it.
- Conversations: the tenant and the session are texts, or functions of the framework's run. Names that differ in a character
  are different conversations; a conversation goes on in any process that has the same database.
- What the model reads: what `Session.process` makes of a tool's output; what is small stays as the framework has it.
  References in arguments are resolved before the tool runs, and the transcript keeps them as the model wrote them.
- Errors: the constructor raises ConfigurationError for what is no `byref.Engine`. A mistake of the model's answers its call,
  and the tool is not run. A tool's own exception stays what the framework makes of it.
- A database that is away: tools run, and their outputs are read whole or cut; calls that need stored data are answered with
  an error. With `Policy(on_storage_failure="raise")` a StorageFailure ends the run, where the framework lets it.
"""
