package ingest

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
)

// RejectionStore stores rejections, the requests that sources refused. RecordRejections
// writes all arguments or, if it returns an error, no part of them. It skips deleted sources and
// rejections that are stored already. It adds the counts to the stored ones; each pair of
// source and reason occurs once in counts.
type RejectionStore interface {
	RecordRejections(ctx context.Context, last []eventhook.Rejection, counts []eventhook.RejectionCount) error
}

// Limits of the rejections in memory between two writes. Rejections beyond them appear only
// in the metrics.
const (
	maxRejectionsPerSource = 20
	maxRejections          = 2000
	maxRejectingSources    = 1000
	maxRejectionReasons    = 32 // of a source; further reasons count as "other"
)

// rejections buffers the rejections since the last write: counts by source and reason, and
// the latest rejections of each source. It is bounded, and adding to it never waits for a
// write. It is safe for concurrent use.
type rejections struct {
	mu      sync.Mutex
	sources map[eventhook.SourceID]*sourceRejections
	listed  int // in sourceRejections.last of all sources
}

type sourceRejections struct {
	last   []eventhook.Rejection // oldest first
	counts map[string]eventhook.RejectionCount
}

// count adds c to the count of its source and reason.
func (p *rejections) count(c eventhook.RejectionCount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.ofSourceLocked(c.SourceID); s != nil {
		s.add(c)
	}
}

// list adds a rejection to the latest rejections of its source.
func (p *rejections) list(r eventhook.Rejection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.ofSourceLocked(r.SourceID); s != nil {
		p.listLocked(s, r)
	}
}

// ofSourceLocked returns the buffer of a source. If the source has no buffer and
// the maximum number of sources is reached, it returns nil.
func (p *rejections) ofSourceLocked(id eventhook.SourceID) *sourceRejections {
	s := p.sources[id]
	if s != nil || len(p.sources) == maxRejectingSources {
		return s
	}
	if p.sources == nil {
		p.sources = map[eventhook.SourceID]*sourceRejections{}
	}
	s = &sourceRejections{counts: map[string]eventhook.RejectionCount{}}
	p.sources[id] = s
	return s
}

// listLocked appends a rejection to those of its source. If a maximum is reached, it replaces
// the oldest rejection of the source; if the source has no rejection, r is dropped.
func (p *rejections) listLocked(s *sourceRejections, r eventhook.Rejection) {
	if len(s.last) < maxRejectionsPerSource && p.listed < maxRejections {
		p.listed++
		s.last = append(s.last, r)
		return
	}
	if len(s.last) > 0 {
		s.last = append(slices.Delete(s.last, 0, 1), r)
	}
}

func (s *sourceRejections) add(c eventhook.RejectionCount) {
	const other = "other"
	have, ok := s.counts[c.Reason]
	if !ok && len(s.counts) >= maxRejectionReasons-1 {
		c.Reason = other
		have, ok = s.counts[other]
	}
	if ok {
		c.Count += have.Count
		c.FirstAt = earlier(c.FirstAt, have.FirstAt)
		c.LastAt = later(c.LastAt, have.LastAt)
	}
	s.counts[c.Reason] = c
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// take empties p and returns its content.
func (p *rejections) take() map[eventhook.SourceID]*sourceRejections {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.sources
	p.sources, p.listed = nil, 0
	return taken
}

// restore adds rejections that could not be written to p again, as older than rejections added
// since, within the same limits.
func (p *rejections) restore(taken map[eventhook.SourceID]*sourceRejections) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, old := range taken {
		s := p.ofSourceLocked(id)
		if s == nil {
			continue
		}
		for _, c := range old.counts {
			s.add(c)
		}
		newer := s.last
		s.last, p.listed = nil, p.listed-len(newer)
		for _, r := range slices.Concat(old.last, newer) {
			p.listLocked(s, r)
		}
	}
}

// flush writes the content of p in one call. If that fails, p keeps it.
func (p *rejections) flush(ctx context.Context, store RejectionStore) error {
	taken := p.take()
	if len(taken) == 0 {
		return nil
	}
	var last []eventhook.Rejection
	var counts []eventhook.RejectionCount
	for _, s := range taken {
		last = append(last, s.last...)
		for _, c := range s.counts {
			counts = append(counts, c)
		}
	}
	err := store.RecordRejections(ctx, last, counts)
	if err != nil {
		p.restore(taken)
	}
	return err
}

const (
	recordInterval = time.Second
	recordTimeout  = 5 * time.Second
)

// RecordRejections writes the buffered rejections to store every second until ctx ends, and
// then once more; cancel ctx after the last request. The end of ctx does not cancel a write
// that has begun. A failed write is retried with the next one; if the store had committed it
// and only the response was lost, its counts are added twice. The error is always nil. Call
// RecordRejections once; without it, rejections are only visible in metrics and logs.
func (h *Handler) RecordRejections(ctx context.Context, store RejectionStore) error {
	tick := time.NewTicker(recordInterval)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case <-tick.C:
		}
		write, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		if err := h.rejected.flush(write, store); err != nil {
			h.log.Warn("rejected requests could not be recorded", "will_retry", running, "error", err)
		}
		cancel()
	}
	return nil
}

// recordRejection buffers a request that a source refused. Without a source, src is nil and
// recordRejection does nothing.
func (h *Handler) recordRejection(r *http.Request, src *source, refused *refusal) {
	if src == nil || !refused.outcome.isCounted() {
		return
	}
	src.account.Refused()
	now, reason := h.now().Truncate(time.Millisecond), refused.reasonLabel() // the precision of the time in an id
	h.rejected.count(eventhook.RejectionCount{SourceID: src.config.ID, Reason: reason, Count: 1, FirstAt: now, LastAt: now})
	if !refused.outcome.isListed() {
		return
	}
	rejection := eventhook.Rejection{
		ID:            eventhook.NewID[eventhook.Rejection](now),
		SourceID:      src.config.ID,
		Outcome:       string(refused.outcome),
		Reason:        reason,
		Detail:        eventhook.SanitizeLabel(refused.detail),
		Method:        eventhook.SanitizeLabel(r.Method),
		ClientAddress: clients.Text(h.Sender(r)),
		HeaderNames:   headerNames(r.Header),
		BodySize:      max(r.ContentLength, eventhook.UnknownBodySize),
	}
	if refused.bodySHA256 != nil {
		rejection.BodySize, rejection.BodySHA256 = int64(refused.bodySize), refused.bodySHA256
	}
	h.rejected.list(rejection)
}

// reasonLabel returns the reason in one word.
func (r *refusal) reasonLabel() string {
	if r.outcome == OutcomeUnverified {
		return r.reason
	}
	return string(r.outcome)
}

// withBody records the size and the hash of the complete body and returns r. It does nothing
// for requests that are not listed as rejections, so that a flood causes no hashing.
func (r *refusal) withBody(body []byte) *refusal {
	if r.outcome.isListed() {
		sum := sha256.Sum256(body)
		r.bodySize, r.bodySHA256 = len(body), sum[:]
	}
	return r
}

// headerNames returns the first 64 header names in sorted order, each truncated to 100
// bytes. A request may have tens of thousands of headers, so headerNames sorts only the
// names that it returns.
func headerNames(header http.Header) []string {
	const maxNames, maxBytes = 64, 100
	names := make([]string, 0, min(len(header), maxNames)+1)
	for name := range header {
		if len(names) == maxNames && name >= names[maxNames-1] {
			continue
		}
		i, _ := slices.BinarySearch(names, name)
		names = slices.Insert(names, i, name)
		names = names[:min(len(names), maxNames)]
	}
	for i, name := range names {
		const enough = maxBytes + utf8.UTFMax
		if len(name) > enough {
			name = strings.Clone(name[:enough])
		}
		names[i] = eventhook.Truncate(eventhook.SanitizeText(name), maxBytes)
	}
	return names
}
