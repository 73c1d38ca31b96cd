// Package owncallers is for servers on loopback that answer only programs of their own user, and no web
// page. It does what twin/host/own_callers.py does for the twin's servers in Python.
package owncallers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	sockDiag   = 4                             // NETLINK_SOCK_DIAG
	byFamily   = 20                            // SOCK_DIAG_BY_FAMILY
	headerSize = 16                            // nlmsghdr
	idSize     = 48                            // inet_diag_sockid
	uidAt      = headerSize + 4 + idSize + 4*3 // in inet_diag_msg: after id, expires and two queues
	answerSize = uidAt + 8
	root       = 0
)

// Listen returns a listener on a loopback address that closes connections of other users unread.
func Listen(address string) (net.Listener, error) {
	made, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, err
	}
	return listener{made}, nil
}

type listener struct{ net.Listener }

// Accept returns the next connection of a program of this user, or of root.
func (l listener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if isOwn(connection.RemoteAddr(), connection.LocalAddr()) {
			return connection, nil
		}
		_ = connection.Close()
	}
}

func isOwn(caller, server net.Addr) bool {
	uid, err := uidOf(addrPort(caller), addrPort(server))
	return err == nil && (uid == os.Getuid() || uid == root)
}

func addrPort(address net.Addr) netip.AddrPort {
	found, _ := address.(*net.TCPAddr)
	if found == nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(found.AddrPort().Addr().Unmap(), found.AddrPort().Port())
}

var errUnknown = errors.New("nobody's socket")

// uidOf returns the user behind a TCP connection of this machine. It is not known after the caller has
// closed its socket. The kernel then reports root, so another user could send a request and close.
func uidOf(caller, server netip.AddrPort) (int, error) {
	if !caller.Addr().Is4() || !server.Addr().Is4() {
		return 0, errUnknown
	}
	if uid, inode, err := asked(caller, server); err == nil {
		if inode == 0 {
			return 0, errUnknown
		}
		return uid, nil
	}
	return listed(caller, server)
}

// asked asks the kernel (sock_diag(7)).
func asked(caller, server netip.AddrPort) (uid int, inode uint32, err error) {
	kernel, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, sockDiag)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = syscall.Close(kernel) }()
	limit := syscall.NsecToTimeval(time.Second.Nanoseconds())
	if err := syscall.SetsockoptTimeval(kernel, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit); err != nil {
		return 0, 0, err
	}
	order := binary.NativeEndian
	query := order.AppendUint32(nil, headerSize+8+idSize)
	query = order.AppendUint16(query, byFamily)
	query = order.AppendUint16(query, syscall.NLM_F_REQUEST)
	query = append(query, make([]byte, 8)...)                         // sequence and port
	query = append(query, syscall.AF_INET, syscall.IPPROTO_TCP, 0, 0) // family, protocol, extensions
	query = order.AppendUint32(query, 0xFFFFFFFF)                     // states
	query = binary.BigEndian.AppendUint16(query, caller.Port())       // inet_diag_sockid, from here
	query = binary.BigEndian.AppendUint16(query, server.Port())
	for _, end := range []netip.AddrPort{caller, server} {
		bytes := end.Addr().As4()
		query = append(append(query, bytes[:]...), make([]byte, 12)...)
	}
	query = order.AppendUint32(query, 0)          // interface
	query = order.AppendUint64(query, ^uint64(0)) // no cookie
	if err := syscall.Sendto(kernel, query, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, 0, err
	}
	answer := make([]byte, 4096)
	size, _, err := syscall.Recvfrom(kernel, answer, 0)
	if err != nil {
		return 0, 0, err
	}
	if size < answerSize || order.Uint16(answer[4:]) != byFamily {
		return 0, 0, errors.New("sock_diag: no such socket, or not supported")
	}
	return int(order.Uint32(answer[uidAt:])), order.Uint32(answer[uidAt+4:]), nil
}

// listed reads the kernel's list of sockets, which is slower.
func listed(caller, server netip.AddrPort) (int, error) {
	content, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	wanted := [2]string{inList(caller), inList(server)}
	for line := range strings.Lines(string(content)) {
		parts := strings.Fields(line)
		if len(parts) < 10 || parts[1] != wanted[0] || parts[2] != wanted[1] {
			continue
		}
		if parts[9] == "0" {
			return 0, errUnknown
		}
		return strconv.Atoi(parts[7])
	}
	return 0, errUnknown
}

func inList(end netip.AddrPort) string {
	bytes := end.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(bytes[:]), end.Port())
}
