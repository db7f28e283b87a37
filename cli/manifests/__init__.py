"""Jobs, channels and rules in files: read, compared with what there is, and applied.

    files    (files.py)       which files, their size, JSON or YAML; each job with its place
    yaml     (yaml_text.py)   YAML without its surprises: what readers disagree on is an error with the line
    plan     (plan.py)        pure: what has to be created, changed, left alone, pruned; field by field, with next fires
    carry    (carrying.py)    reads what there is, checks everything, then saves and prunes
    records  (records.py)     channels and rules, which are saved before the jobs that name them
    apply    (applying.py)    `etcron job apply`: the plan, and what became of it, as text and as JSON

`etcron crontab import` makes jobs out of lines and goes the same way from `plan` on.
"""
