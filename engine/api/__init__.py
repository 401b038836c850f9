"""The Python API: a job composed in Python (compose.py), and a handle on one that runs beside its program.

    program                                        launcher (launcher.py)
    Run (run.py)  -- order, kill, cancel -->       what `riprap run` does, from start to summary
                  <-- started, progress, ended --

The two talk through an AF_UNIX channel; what they say is in messages.py. Whichever of them dies, the kernel closes its
end: a launcher whose program is gone ends the job cleanly, a program whose launcher is gone is told so.
"""
