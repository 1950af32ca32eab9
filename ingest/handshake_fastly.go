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

// Services lists the Fastly services that may send their logs to this gateway.
type Services interface {
	// FastlyServices returns the option service_ids of each enabled source of Fastly. Each is
	// an id, a comma-separated list of ids, or *. Order and duplicates do not matter.
	FastlyServices(ctx context.Context) ([]string, error)
}

// FastlyPath is the path at which Fastly asks a host which services may send logs to it. It
// names no source, so the response covers all sources.
const FastlyPath = "/.well-known/fastly/logging/challenge"

const (
	maxServices    = 1000
	servicesMaxAge = time.Minute
)

type fastlyCache = snapshot.Cache[struct{}, string]

func newFastlyCache(deps Deps) *fastlyCache {
	return snapshot.New(1, servicesMaxAge, deps.Now, func(ctx context.Context, _ struct{}) (string, error) {
		if deps.Services == nil {
			return "", eventhook.NotFound("service")
		}
		ids, err := deps.Services.FastlyServices(ctx)
		if err != nil {
			return "", err
		}
		lines := serviceLines(ids)
		if len(lines) > maxServices {
			deps.Log.Warn("too many Fastly services: some are omitted from the challenge response", "services", len(lines), "listed", maxServices)
			lines = lines[:maxServices]
		}
		if len(lines) == 0 {
			return "", eventhook.NotFound("service")
		}
		return strings.Join(lines, ""), nil
	})
}

// serviceLines returns a sorted line for each service: the SHA-256 of its id in hexadecimal,
// or * for any service.
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
	refused := &refusal{outcome: OutcomeFailed, requestID: RequestIDOf(c.Request().Header, h.now())}
	if eventhook.KindOf(err) == eventhook.KindNotFound {
		refused.outcome = OutcomeNotFound
	} else if h.errorLines.AllowN(h.now(), 1) {
		h.log.Error("the Fastly services could not be read", "request_id", refused.requestID, "error", err)
	}
	h.observer.Answered(refused.outcome, "")
	writeRefusal(w, refused)
	return nil
}
