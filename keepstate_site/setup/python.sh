# shellcheck shell=sh
# Python and its private environment. Sourced after packages.sh; expects PROJECT, STATE and LOGS.

usable_python() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# pick_python: sets BASE_PYTHON to a Python >= 3.11 that can make environments, the distribution's own before others.
pick_python() {
    for BASE_PYTHON in ${KEEPSTATE_PYTHON:+"$KEEPSTATE_PYTHON"} /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
        if usable_python "$BASE_PYTHON"; then return 0; fi
    done
    return 1
}

# ensure_venv FILE...: var/venv with exactly these pinned requirements. Stamps are written last, so a half-made one is made again;
# a larger set includes the smaller ones before it, so changing between commands installs nothing anew.
ensure_venv() {
    if has_venv "$@"; then return 0; fi
    pick_python || fail "no Python 3.11 or newer with venv was found, and this distribution's python3 is older." \
        "Install one and name it: KEEPSTATE_PYTHON=/path/to/python3 ./keepstate ..."
    if ! [ -x "$PYTHON" ] || [ "$(version_of "$PYTHON")" != "$(version_of "$BASE_PYTHON")" ]; then
        say "making a Python environment in $VENV ($(version_of "$BASE_PYTHON"))"
        "$BASE_PYTHON" -m venv --clear "$VENV" || fail "the Python environment could not be made in $VENV." "Look at the lines above and at the disk's free space."
    fi
    rm -f "$VENV"/.keepstate-*
    say "installing pinned requirements, checked by hash (log: $LOGS/setup.log)"
    # Not compiled by pip: most modules are never imported (see compile_ahead for those that are).
    # shellcheck disable=SC2046
    logged '^(Collecting|ERROR)' "$PYTHON" -m pip install --disable-pip-version-check --no-input --no-deps --require-hashes --progress-bar off --no-compile \
        $(printf -- '-r requirements/%s ' "$@") || {
        tail -n 15 "$LOGS/setup.log" >&2
        fail "pip could not install the requirements; nothing was started." "Look at the network (pip's own settings and proxies are honoured), then run this again."
    }
    : >"$(stamp_of base.txt)"
    : >"$(stamp_of "$@")"
}

# compile_ahead: what the processes import, for those that may not write beside the code. Only time is lost without it.
compile_ahead() {
    say "compiling what KeepState's processes import"
    env -u PYTHONDONTWRITEBYTECODE "$PYTHON" -W ignore -m keepstate_site.bytecode >>"$LOGS/setup.log" 2>&1 ||
        say "going on without: processes that may not write beside the code compile it at each start (log: $LOGS/setup.log)"
}

# has_venv FILE...: whether it is there, with these requirements. Sets PYTHON and VENV.
has_venv() {
    VENV=$STATE/venv
    PYTHON=$VENV/bin/python
    [ -x "$PYTHON" ] && [ -f "$(stamp_of "$@")" ]
}

# stamp_of FILE...: the stamp's path; it names what the files hold and which interpreter the environment stands on.
stamp_of() {
    printf '%s/.keepstate-%s' "$VENV" "$({ readlink -f "$PYTHON"; (cd "$PROJECT/requirements" && cat "$@"); } | sha256sum | cut -c 1-16)"
}

version_of() { "$1" -c 'import platform; print(platform.python_implementation(), platform.python_version())'; }
