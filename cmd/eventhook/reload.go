package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// notifyHangups returns a channel that receives SIGHUP. From this call on, SIGHUP does not end
// the process. Hangups that arrive while one waits in the channel are dropped.
func notifyHangups() <-chan os.Signal {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// reloadOnHangup calls reload after each SIGHUP until ctx ends.
func (g *gateway) reloadOnHangup(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.hangups:
			g.reload(ctx)
		}
	}
}

// reload reads again what may change while the gateway runs. If a part cannot be read, reload
// logs an error, and the gateway continues with the former value of that part.
func (g *gateway) reload(_ context.Context) {
	g.log.Info("reloading after SIGHUP")
	g.reloadLogLevel()
	if g.certificate != nil {
		g.certificate.Reload()
	}
}
