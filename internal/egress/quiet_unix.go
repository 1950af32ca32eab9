//go:build unix

package egress

import (
	"errors"
	"net"
	"syscall"
)

// isQuiet reports whether nothing has come over an idle connection: neither its
// end, nor what would be taken for the answer to the next request. It does not
// wait.
func isQuiet(wire net.Conn) bool {
	socket, ok := wire.(syscall.Conn)
	if !ok {
		return true // nothing that was dialled
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var got error
	err = raw.Read(func(fd uintptr) (done bool) {
		var one [1]byte
		_, _, got = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && errors.Is(got, syscall.EAGAIN)
}
