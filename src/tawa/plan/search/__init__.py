"""One search for the Plan of a kernel: the same forms, in the same order, for everybody who chooses one.

    which Plans there are     `space`: the forms of a kernel, and what the model of time expects of each
    in which order            `search`: by predicted time; what is clearly behind is not tried
    how many                  `candidate.Effort`
    judged by prediction      `search.Search.choose`: the form that a launch gets
    judged by compiling       `compiled`: whether it fits and what it spills, with `runs` of the back end
    judged alone              `measured`: mode="measure", and `tawa tune`
    judged in real launches   `comparison`: launches that learn
    judged by other tuners    `tuned`

What the search compares with is in `tawa.plan.thresholds`.
"""
