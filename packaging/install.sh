#!/bin/sh
# Installs tenantd from this directory without a network, or uninstalls it. Keeps data and configuration unless you request otherwise.
set -eu

usage() {
    cat <<'USAGE'
usage: ./install.sh [--root DIRECTORY] [--no-start]
       ./install.sh --uninstall [--purge-data [--yes]] [--root DIRECTORY]

Installs tenantd, or upgrades an existing installation.

  --root DIRECTORY  install below this directory and do not start the service
  --no-start        do not start the service
  --uninstall       stop the service and remove the installed files; keep configuration and data
  --purge-data      with --uninstall: also delete /etc/tenantd and /var/lib/tenantd, after confirmation
  --yes             do not ask for confirmation
USAGE
}

fail() { echo "install.sh: $1" >&2; exit 1; }

root='' start=yes uninstall=no purge=no ask=yes
while [ $# -gt 0 ]; do
    case "$1" in
        --root) [ $# -ge 2 ] || { usage >&2; exit 2; }; root=$2; start=no; shift ;;
        --no-start) start=no ;;
        --uninstall) uninstall=yes ;;
        --purge-data) purge=yes ;;
        --yes) ask=no ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
if [ "$purge" = yes ] && [ "$uninstall" = no ]; then
    usage >&2
    exit 2
fi
case "$root" in
    '' | /*) ;;
    # The script changes to its own directory.
    *) root=$PWD/$root ;;
esac
[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "run this script as root"
cd "$(dirname "$0")"

units="tenantd.socket tenantd.service tenantd-snapshot.timer"
managed() { [ -z "$root" ] && [ -d /run/systemd/system ]; }
# Every file below files/ is installed under the same path. The list of installed files lets another version remove them.
installed=$root/usr/share/doc/tenantd/installed
list() { (cd files && find . -type f | sed 's#^\.##' | LC_ALL=C sort); }
# Removes the listed files, but keeps configuration files.
remove() {
    while read -r file; do
        case "$file" in
            /etc/*) ;;
            *) rm -f "$root$file" ;;
        esac
    done
}
packaged() {
    dpkg-query --show --showformat='${db:Status-Status}' tenantd 2>/dev/null | grep -q '^installed$' || rpm --query --quiet tenantd 2>/dev/null
}

if [ -z "$root" ] && packaged; then fail "tenantd is installed as a system package: upgrade or remove it with the package manager"; fi

if [ "$uninstall" = yes ]; then
    if [ "$purge" = yes ] && [ "$ask" = yes ]; then
        printf 'This deletes all data of all tenants in %s/var/lib/tenantd. Type "remove" to continue: ' "$root"
        answer=
        read -r answer || true
        [ "$answer" = remove ] || fail "nothing was removed"
    fi
    if managed; then
        for unit in $units; do
            if systemctl cat "$unit" >/dev/null 2>&1; then systemctl --quiet disable --now "$unit"; fi
        done
    fi
    if [ -e "$installed" ]; then remove <"$installed"; else list | remove; fi
    rm -f "$installed"
    for directory in doc licenses; do rmdir "$root/usr/share/$directory/tenantd" 2>/dev/null || true; done
    if [ "$purge" = yes ]; then rm -rf "$root/etc/tenantd" "$root/var/lib/tenantd"; fi
    if managed; then systemctl daemon-reload; fi
    echo "Removed tenantd."
    [ "$purge" = yes ] || echo "Kept configuration and data in $root/etc/tenantd and $root/var/lib/tenantd."
    exit 0
fi

sha256sum --quiet --check SHA256SUMS
files/usr/bin/tenantd --version >/dev/null || fail "this program does not run on this host: it is for $(basename "$PWD")"
list | while read -r file; do
    mode=0644
    if [ -x "files$file" ]; then mode=0755; fi
    mkdir -p "$root$(dirname "$file")"
    case "$file" in
        /etc/*)
            # Keep files that an administrator changed.
            if [ -e "$root$file" ]; then
                if ! cmp -s "files$file" "$root$file"; then
                    install -m "$mode" "files$file" "$root$file.new"
                    echo "Kept $root$file unchanged. The file of this version is next to it, as $(basename "$file").new"
                fi
                continue
            fi
            ;;
    esac
    # Install under another name and rename it, because a running program cannot be overwritten.
    install -m "$mode" "files$file" "$root$file.installing"
    mv -f "$root$file.installing" "$root$file"
done
list >"$installed.new"
if [ -e "$installed" ]; then LC_ALL=C comm -23 "$installed" "$installed.new" | remove; fi
mv -f "$installed.new" "$installed"
if [ -z "$root" ]; then
    systemd-sysusers tenantd.conf
    systemd-tmpfiles --create tenantd.conf
fi
if managed; then
    systemctl daemon-reload
    if [ "$start" = yes ]; then
        # shellcheck disable=SC2086
        systemctl --quiet enable $units
        systemctl start tenantd.socket tenantd-snapshot.timer
        systemctl restart tenantd.service
    fi
fi
echo "Installed tenantd. The initial password of the first operator is in $root/var/lib/tenantd/initial-operator-password and works for 72 hours"
