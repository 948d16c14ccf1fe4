"""How well text that is a table is recognised, on corpora of others, none of which is in this repository.

The folder `CORPORA` has them: `pollock` is a checkout of HPI-Information-Systems/Pollock (MIT), with `polluted_files` and its own code;
`terminal` has outputs of programs, a file each. What is not there is said, and left out.
"""
