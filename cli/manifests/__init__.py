"""Jobs in files: read, compared with what there is, and applied.

    files    (files.py)       which files, their size, JSON or YAML; each job with its place
    yaml     (yaml_text.py)   YAML without its surprises: what readers disagree on is an error with the line
    plan     (plan.py)        pure: what has to be created, changed, left alone, pruned; field by field
    fires    (fires.py)       the next fires of a job that need not be saved
    carry    (carrying.py)    reads what there is, checks everything, then saves and prunes
    show     (showing.py)     the plan as text and as JSON
    apply    (applying.py)    `etcron job apply`; its command line is in commands.py

`etcron crontab import` makes jobs out of lines and goes the same way from `plan` on.
"""
