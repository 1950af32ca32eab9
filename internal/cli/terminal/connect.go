package terminal

import (
	"errors"
	"fmt"
	"net/url"
	"syscall"
)

// GatewayError returns the error of a call to the gateway at server. If the gateway
// cannot be reached, the error has advice for the user.
func GatewayError(err error, server string) error {
	return ConnectError(err, server, "no gateway listens at "+server+": start one with eventhook serve, or choose another with --server or EVENTHOOK_SERVER")
}

// ConnectError returns the error of a request to server, without the request line that
// net/http puts before it. If the connection is refused, the error is the text refused.
func ConnectError(err error, server, refused string) error {
	var unreachable *url.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New(refused)
	case errors.As(err, &unreachable):
		return fmt.Errorf("cannot connect to %s: %w", server, unreachable.Err)
	}
	return err
}
