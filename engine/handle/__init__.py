"""A job that runs beside the program that started it: a handle here, a launcher in a process of its own.

    program                                        launcher (engine/handle/launcher.py)
    Run (run.py)  -- order, kill, cancel -->       what `riprap run` does, from start to summary
                  <-- started, progress, ended --

The two talk through an AF_UNIX channel; what they say is in messages.py. Whichever of them dies, the kernel closes its
end: a launcher whose program is gone ends the job cleanly, a program whose launcher is gone is told so.
"""
