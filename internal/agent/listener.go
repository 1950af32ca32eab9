package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// The timeouts of the listener.
const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	closeTimeout  = time.Second
)

// listen listens for requests to the metrics and the health, and returns the function that serves
// them until its context ends.
func (a *Agent) listen(address string) (serve func(context.Context), err error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--listen %s: the address is in use by another program; choose another one, or --listen '' for none", address)
	case err != nil:
		return nil, fmt.Errorf("--listen %s: %w; choose an address of this host, or --listen '' for none", address, err)
	}
	a.log.Info("serving /metrics and /health", "listen", l.Addr().String())
	server := &http.Server{Handler: a.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout}
	return func(ctx context.Context) {
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		select {
		case err := <-ended:
			a.log.Error("the listener for metrics and health has failed", "error", err)
			return
		case <-ctx.Done():
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			_ = server.Close()
		}
		<-ended //nolint:errcheck // http.ErrServerClosed
	}, nil
}

// handler serves /metrics, and the health: /health and /health/ready answer 200 while the gateway
// answers claims, /health/live always. "eventhook health" reads both.
func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.handler())
	ready := func(w http.ResponseWriter, _ *http.Request) {
		h, status := a.state.health(time.Now()), http.StatusOK
		if h.Status != healthOK {
			status = http.StatusServiceUnavailable
		}
		answerJSON(w, status, h)
	}
	mux.HandleFunc("GET /health", ready)
	mux.HandleFunc("GET /health/ready", ready)
	mux.HandleFunc("GET /health/live", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, health{Status: healthOK})
	})
	return mux
}

func answerJSON(w http.ResponseWriter, status int, h health) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(h)
}
