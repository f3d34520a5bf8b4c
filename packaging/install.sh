#!/bin/sh
# Installs tenantd from this directory, without a network, or removes it again. Data and configuration are kept unless told otherwise.
set -eu

usage() {
    cat <<'USAGE'
usage: ./install.sh [--root DIRECTORY] [--no-start]
       ./install.sh --uninstall [--purge-data [--yes]] [--root DIRECTORY]

Run on a host that has tenantd, it upgrades it.

  --root DIRECTORY  install below this directory and start nothing
  --no-start        install, and leave starting the service to you
  --uninstall       stop the service and remove what was installed; configuration and data stay
  --purge-data      with --uninstall: remove /etc/tenantd and /var/lib/tenantd too, after asking
  --yes             do not ask
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
    # The script goes into its own directory.
    *) root=$PWD/$root ;;
esac
[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "this needs root"
cd "$(dirname "$0")"

units="tenantd.socket tenantd.service tenantd-snapshot.timer"
managed() { [ -z "$root" ] && [ -d /run/systemd/system ]; }
# Everything below files/ is installed under the same name; what was installed is written down, for another version to remove.
installed=$root/usr/share/doc/tenantd/installed
list() { (cd files && find . -type f | sed 's#^\.##' | LC_ALL=C sort); }
# Removes the files that are named; what belongs to the administrator stays.
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

if [ -z "$root" ] && packaged; then fail "tenantd is installed as a package of this system: upgrade or remove it with the package manager"; fi

if [ "$uninstall" = yes ]; then
    if [ "$purge" = yes ] && [ "$ask" = yes ]; then
        printf 'All data in %s/var/lib/tenantd will be lost, of all tenants. Type "remove" to go on: ' "$root"
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
    echo "tenantd is removed."
    [ "$purge" = yes ] || echo "Configuration and data are kept in $root/etc/tenantd and $root/var/lib/tenantd."
    exit 0
fi

sha256sum --quiet --check SHA256SUMS
files/usr/bin/tenantd --version >/dev/null || fail "this program does not run here: it is for $(basename "$PWD")"
list | while read -r file; do
    mode=0644
    if [ -x "files$file" ]; then mode=0755; fi
    mkdir -p "$root$(dirname "$file")"
    case "$file" in
        /etc/*)
            # What an administrator has changed stays.
            if [ -e "$root$file" ]; then
                if ! cmp -s "files$file" "$root$file"; then
                    install -m "$mode" "files$file" "$root$file.new"
                    echo "$root$file is kept as it is; the one of this version is beside it, as $(basename "$file").new"
                fi
                continue
            fi
            ;;
    esac
    # Beside it and renamed: a program that runs cannot be written over.
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
echo "tenantd is installed. The first operator's password: $root/var/lib/tenantd/initial-operator-password"
