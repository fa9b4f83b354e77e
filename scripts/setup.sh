# Sourced by quickstart and check: the Debian packages that verbena needs, and how they get here.

packages_build=(gcc libc6-dev meson ninja-build pkg-config libucx-dev libibverbs-dev librdmacm-dev libopenblas-dev
    libdnnl-dev libyaml-dev libjansson-dev libisal-dev libsodium-dev zlib1g-dev)
packages_data=(dataset-fashion-mnist)
packages_check=(git libcriterion-dev clang libclang-rt-14-dev clang-format python3 iproute2)
# a machine with RDMA: tests/rdma
packages_vm=(qemu-system-x86 busybox-static cpio kmod rdma-core iproute2)

# missing PACKAGE...: those that are not installed, one a line
missing()
{
    local installed
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
    for package; do
        [[ $'\n'$installed$'\n' == *$'\n'"$package installed"$'\n'* ]] || echo "$package"
    done
}

# install_packages PACKAGE...: installs what is missing, or says what it is and ends with 1
install_packages()
{
    local need as_root=()

    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        [ -n "${VB_HAVE_PACKAGES:-}" ] && return 0
        echo "This is not Debian or a relative. verbena needs what Debian 12 calls:" >&2
        echo "    $*" >&2
        echo "Install these, then run it again with VB_HAVE_PACKAGES=1." >&2
        exit 1
    fi
    need=$(missing "$@" | tr '\n' ' ')
    [ -z "$need" ] && return 0
    if [ "$(id -u)" != 0 ]; then
        as_root=(sudo -n)
        if ! sudo -n true 2>/dev/null; then
            echo "Some Debian packages are missing. Install them, then run this again:" >&2
            echo "    sudo apt-get install $need" >&2
            exit 1
        fi
    fi
    echo "installing $need" >&2
    # shellcheck disable=SC2086
    quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get -o DPkg::Lock::Timeout=300 update &&
        apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"' sh $need
}

# quietly COMMAND...: shows its output only when it fails, and ends with its code
quietly()
{
    local output code=0
    output=$("$@" 2>&1) || code=$?
    [ $code = 0 ] && return 0
    printf '%s\n' "$output" >&2
    echo "failed: $*" >&2
    exit $code
}
