"""One worker of the regret bench: ``python -m bench.regret.worker --worker``."""

from bench.regret.measure import handle
from bench.workers import serve_jobs

if __name__ == "__main__":
    serve_jobs(handle)
