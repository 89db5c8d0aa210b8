.PHONY: test lint types ci coverage bench pins

test:
	uv run pytest

lint:
	uv run ruff check --fix && uv run ruff format

types:
	uv run pyright

ci:
	.ci/run

coverage:
	uv run coverage erase && uv run coverage run -m pytest -m "long or not long"
	uv run coverage combine -q && uv run coverage report

bench:
	uv run python -m benchmarks

pins:
	uv run python tools/pins.py
