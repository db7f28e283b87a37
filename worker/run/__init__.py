"""Commands on this machine: a run is started, captured, limited and ended, and gives exactly one outcome.

executor.py                       from `start` to the outcome
spawner.py first_process.py       the start of its first process: here, where nothing can hang, else by the launcher
running.py run_watch.py output.py output_reader.py mask.py resources.py
                                  what is seen of it while it goes, and at its end; what it takes of the machine
sweeper.py leftovers.py shortage.py
                                  what it has left behind is ended; what is looked for while the worker is short
orphans.py                        and reaped, where no other process does it

What a run is called on its way:
    Launch     in `worker.launch`: what the dispatcher wants started; it changes no more
    Start      in `spawner`: its start, once it is made ready, with the descriptors that this holds; then one of
    Execution      in `first_process`: its program is executed here
    Starting       in `worker.launcher.link`: the launcher was asked to execute it
    Running    in `running`: it has a process, up to its end; an `Outcome` (`worker.launch`) comes of it
"""
