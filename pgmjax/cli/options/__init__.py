"""The options of each command as data: what a usage error needs, without JAX.

Each command names the function that runs it as "module:function", to be imported when it runs.
Choices that the library defines elsewhere are repeated here; a test compares them.
"""

from pgmjax.cli.options import answers, domain, history, ledger, local, mechanisms, release, session

COMMANDS = (
    release.RELEASE,
    local.PERTURB,
    local.RESPOND,
    local.COLLECT,
    answers.QUERY,
    answers.LOOK,
    mechanisms.MECHANISMS,
    domain.DOMAIN,
    answers.FIT,
    ledger.LEDGER,
    session.SESSION,
    history.HISTORY,
    history.SIMILARITIES,
    mechanisms.AUDIT,
    mechanisms.BENCH,
)
