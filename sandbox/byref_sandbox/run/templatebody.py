"""The body of a template's run: Jinja in a jailed process."""

from __future__ import annotations

from byref_sandbox import wire
from byref_sandbox.code import templates
from byref_sandbox.outcome import Failure
from byref_sandbox.run.worker import Body, Captured, error_frame, failure_of, out_of_memory
from byref_sandbox.values import data, exact


def template_body(request: wire.Request) -> Body:
    """Return the body that renders the template in `request.source` over the value of its one payload, which is decoded in the jail."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        try:
            [payload] = request.payloads
            value = data.decode(payload.content_type, payload.inline or b"")
            if isinstance(value, data.Exact):
                value = exact.decode(value.data)
            return [
                wire.Output(templates.render(request.source, value, max_bytes=request.max_output_bytes)),
                wire.Done(),
            ]
        except templates.Unbounded as error:
            return [error_frame(Failure("OutputLimit", str(error)))]
        except Exception as error:  # noqa: BLE001  whatever a template can do wrong
            known = failure_of(error, request.terms) if out_of_memory(error) else templates.failure_of(error)
            return [error_frame(known)]

    return body
