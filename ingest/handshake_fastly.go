package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// Services are the services that may send their logs to sources of Fastly.
type Services interface {
	// FastlyServices returns what the enabled sources of Fastly name in their
	// option service_ids: ids, lists of ids with commas between, or *; in any
	// order, some perhaps twice.
	FastlyServices(ctx context.Context) ([]string, error)
}

// FastlyPath is where Fastly asks a host which services may send to it. It
// names no source, so the answer is about all of them.
const FastlyPath = "/.well-known/fastly/logging/challenge"

const (
	maxServices = 1000
	servicesAge = time.Minute
)

type fastlyCache = snapshot.Cache[struct{}, string]

func newFastlyCache(deps Deps) *fastlyCache {
	return snapshot.New(1, servicesAge, deps.Now, func(ctx context.Context, _ struct{}) (string, error) {
		if deps.Services == nil {
			return "", eventhook.NotFound("service")
		}
		ids, err := deps.Services.FastlyServices(ctx)
		if err != nil {
			return "", err
		}
		lines := serviceLines(ids)
		if len(lines) > maxServices {
			deps.Log.Warn("too many services of Fastly: some are not told", "services", len(lines), "told", maxServices)
			lines = lines[:maxServices]
		}
		if len(lines) == 0 {
			return "", eventhook.NotFound("service")
		}
		return strings.Join(lines, ""), nil
	})
}

// serviceLines is a line for each service: its hash, or * for all there are.
func serviceLines(options []string) []string {
	var lines []string
	for id := range strings.SplitSeq(strings.Join(options, ","), ",") {
		switch id = strings.TrimSpace(id); id {
		case "":
		case "*":
			lines = append(lines, "*\n")
		default:
			sum := sha256.Sum256([]byte(id))
			lines = append(lines, hex.EncodeToString(sum[:])+"\n")
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func (h *Handler) serveFastly(c echo.Context) error {
	w := c.Response().Writer
	defer func() { c.Response().Committed = true }()
	text, err := h.fastly.Get(c.Request().Context(), struct{}{})
	if err == nil {
		h.observer.Answered(OutcomeHandshake, "")
		textReply(text).write(w)
		return nil
	}
	no := &refused{outcome: OutcomeFailed}
	if eventhook.KindOf(err) == eventhook.KindNotFound {
		no.outcome = OutcomeNotFound
	} else if h.faults.AllowN(h.now(), 1) {
		h.log.Error("the services of Fastly could not be found", "error", err)
	}
	h.observer.Answered(no.outcome, "")
	refuse(w, no)
	return nil
}
