#!/bin/sh
# Installs tenantd from this directory, without a network, or removes it again. Data and configuration are kept unless told otherwise.
set -eu

usage() {
    cat <<'USAGE'
usage: ./install.sh [--root DIRECTORY] [--no-start]
       ./install.sh --uninstall [--purge-data] [--root DIRECTORY]

  --root DIRECTORY  install below this directory and start nothing
  --no-start        install, and leave starting the service to you
  --uninstall       stop the service and remove what was installed; configuration and data stay
  --purge-data      with --uninstall: remove /etc/tenantd and /var/lib/tenantd too
USAGE
}

root= start=yes uninstall=no purge=no
while [ $# -gt 0 ]; do
    case "$1" in
        --root) [ $# -ge 2 ] || { usage >&2; exit 2; }; root=$2; start=no; shift ;;
        --no-start) start=no ;;
        --uninstall) uninstall=yes ;;
        --purge-data) purge=yes ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
if [ "$purge" = yes ] && [ "$uninstall" = no ]; then
    usage >&2
    exit 2
fi
if [ -z "$root" ] && [ "$(id -u)" -ne 0 ]; then
    echo "install.sh: this needs root" >&2
    exit 1
fi
cd "$(dirname "$0")"

units="tenantd.socket tenantd.service tenantd-snapshot.timer"
managed() { [ -z "$root" ] && [ -d /run/systemd/system ]; }
# Everything below files/ is installed under the same name.
list() { (cd files && find . -type f | sed 's#^\.##' | sort); }

if [ "$uninstall" = yes ]; then
    # shellcheck disable=SC2086
    if managed; then systemctl disable --now $units >/dev/null 2>&1 || true; fi
    list | while read -r file; do
        case "$file" in
            /etc/*) ;;
            *) rm -f "$root$file" ;;
        esac
    done
    rmdir "$root/usr/share/doc/tenantd" 2>/dev/null || true
    if [ "$purge" = yes ]; then rm -rf "$root/etc/tenantd" "$root/var/lib/tenantd"; fi
    if managed; then systemctl daemon-reload; fi
    echo "tenantd is removed."
    [ "$purge" = yes ] || echo "Configuration and data are kept in $root/etc/tenantd and $root/var/lib/tenantd."
    exit 0
fi

sha256sum --quiet --check SHA256SUMS
list | while read -r file; do
    mode=0644
    if [ -x "files$file" ]; then mode=0755; fi
    mkdir -p "$root$(dirname "$file")"
    case "$file" in
        /etc/*)
            # What an administrator has changed stays.
            if [ -e "$root$file" ]; then
                cmp -s "files$file" "$root$file" || install -m "$mode" "files$file" "$root$file.new"
                continue
            fi
            ;;
    esac
    # Beside it and renamed: a program that runs cannot be written over.
    install -m "$mode" "files$file" "$root$file.installing"
    mv -f "$root$file.installing" "$root$file"
done
if [ -z "$root" ]; then
    systemd-sysusers tenantd.conf
    systemd-tmpfiles --create tenantd.conf
fi
if managed; then
    systemctl daemon-reload
    if [ "$start" = yes ]; then
        # shellcheck disable=SC2086
        systemctl enable $units
        systemctl start tenantd.socket tenantd-snapshot.timer
        systemctl restart tenantd.service
    fi
fi
echo "tenantd is installed. The first operator's password: $root/var/lib/tenantd/initial-operator-password"
