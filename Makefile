.PHONY: test lint types ci bench pins

test:
	uv run pytest

lint:
	uv run ruff check --fix && uv run ruff format

types:
	uv run pyright

ci:
	.ci/run

bench:
	uv run python -m benchmarks

pins:
	uv run python tools/pins.py
