# shellcheck shell=sh
# Distribution packages: which are missing, and how they come. Sourced after say.sh; expects PROJECT and LOGS.

distribution() {
    # shellcheck disable=SC1090,SC1091
    (. "${KEEPSTATE_OS_RELEASE:-/etc/os-release}" 2>/dev/null && printf '%s:%s' "${ID:-unknown}" "${VERSION_ID:-}") || printf 'unknown:'
}

# wanted GROUP...: lines "package|reason" of these groups on this distribution.
wanted() {
    for list in "$PROJECT/keepstate_site/setup/packages.txt" "$PROJECT/workers/guest/packages.txt"; do
        [ -f "$list" ] || continue
        awk -F '|' -v groups=" $* " -v here="$(distribution)" '
            function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }
            /^[ \t]*(#|$)/ { next }
            {
                group = trim($1); where = trim($2); split(here, part, ":")
                if (index(groups, " " group " ") && (where == "all" || where == here || where == part[1])) print trim($3) "|" trim($4)
            }' "$list"
    done
}

# missing GROUP...: the same lines, without what is installed.
missing() {
    lines=$(wanted "$@")
    names=$(printf '%s\n' "$lines" | cut -d '|' -f 1)
    # shellcheck disable=SC2086
    installed=$(dpkg-query -W -f '${Package}:${db:Status-Status}\n' $names 2>/dev/null | sed -n 's/:installed$//p')
    printf '%s\n' "$lines" | while IFS='|' read -r name reason; do
        printf '%s\n' "$installed" | grep -qxF "$name" || printf '%s|%s\n' "$name" "$reason"
    done
}

# ensure_packages GROUP...: install what is missing, saying what and why. KEEPSTATE_SKIP_PACKAGES=1 trusts the machine as it is.
ensure_packages() {
    [ "${KEEPSTATE_SKIP_PACKAGES:-}" != 1 ] || return 0
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this system has no apt. These are needed, by their Debian names:"
        wanted "$@" | sed 's/|/: /; s/^/keepstate |   /'
        fail "packages cannot be installed here; nothing was changed." "Install what the list names, then run again with KEEPSTATE_SKIP_PACKAGES=1."
    fi
    lines=$(missing "$@")
    [ -n "$lines" ] || return 0
    case $(distribution) in
        debian:12 | debian:13 | ubuntu:24.04) ;;
        *) say "$(distribution) was never tried; the package names of Debian are used" ;;
    esac
    say "installing from the distribution (log: $LOGS/setup.log):"
    printf '%s\n' "$lines" | sed 's/|/: /; s/^/keepstate |   /'
    # shellcheck disable=SC2046
    install_packages $(printf '%s\n' "$lines" | cut -d '|' -f 1)
}

# offer_packages GROUP WHAT: the same for what a host may do without. What goes wrong is said, and nothing stops.
offer_packages() {
    (ensure_packages "$1") || say "going on without $2"
}

install_packages() {
    as_root_or_fail "$*"
    lists_know "$@" || update_lists
    if ! apt_install "$@"; then
        say "that failed; package lists may be old: fetching new ones and trying once more"
        update_lists
        apt_install "$@" || {
            tail -n 15 "$LOGS/setup.log" >&2
            fail "apt-get could not install: $*. The lines above are its own; nothing of KeepState was started." \
                "Look at the network and at apt's sources, try \`apt-get install $*\` by hand, then run this again."
        }
    fi
}

as_root_or_fail() {
    if [ "$(id -u)" = 0 ]; then
        SUDO=
    elif command -v sudo >/dev/null; then
        # Without a terminal nobody can type a password.
        if [ -t 0 ]; then SUDO=sudo; else SUDO="sudo -n"; fi
        $SUDO true || fail "sudo refused; packages were not installed: $1." "Run \`apt-get install $1\` as root, then run this again."
    else
        fail "these packages are missing and this user is neither root nor has sudo: $1." "Run \`apt-get install $1\` as root, then run this again."
    fi
}

lists_know() {
    known=$(LC_ALL=C apt-cache policy "$@" 2>/dev/null | grep -c 'Candidate: [^(]') || true
    [ "$known" -ge $# ]
}

# ensure_lists: guest images are made from the distribution's packages, through the lists that apt keeps.
ensure_lists() {
    if [ -z "$(find /var/lib/apt/lists -name '*_Packages*' -print -quit 2>/dev/null)" ] && command -v apt-get >/dev/null; then
        as_root_or_fail "(package lists)"
        update_lists
    fi
}

update_lists() {
    say "fetching package lists"
    apt_get '^(Err|E:|W:)' update || {
        tail -n 10 "$LOGS/setup.log" >&2
        fail "apt-get update failed; nothing was installed." "Look at the network, a proxy and apt's sources, then run this again."
    }
}

apt_install() { apt_get '^(Setting up|E:)' install --yes --no-install-recommends "$@"; }

apt_get() {
    shown=$1
    shift
    # shellcheck disable=SC2086
    logged "$shown" $SUDO env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}
