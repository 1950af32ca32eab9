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

// RejectionStore keeps what sources refused. RecordRejections writes all of it
// or, with an error, nothing; what is about a source that is gone it passes
// over. A rejection that it has is not written again. Counts are added to what
// it has; a source and a reason occur in them once.
type RejectionStore interface {
	RecordRejections(ctx context.Context, last []eventhook.Rejection, counts []eventhook.RejectionCount) error
}

// Bounds of what is held between two writes. What is beyond them is in the
// metrics alone.
const (
	rejectionsOfSource = 20
	rejectionsOfAll    = 2000
	rejectingSources   = 1000
	rejectionReasons   = 32 // of a source; the rest are other
)

// rejections are the requests that were refused since they were last written:
// counted by source and reason, and the last ones of each source. Whatever
// comes they are bounded, and adding to them waits for no write.
type rejections struct {
	mu      sync.Mutex
	sources map[eventhook.SourceID]*sourceRejections
	kept    int // in all sources' last
}

type sourceRejections struct {
	last   []eventhook.Rejection // oldest first
	counts map[string]eventhook.RejectionCount
}

// count adds to what a source has refused for a reason.
func (p *rejections) count(c eventhook.RejectionCount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.ofLocked(c.SourceID); s != nil {
		s.add(c)
	}
}

// keep adds to the last requests that a source has refused.
func (p *rejections) keep(r eventhook.Rejection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.ofLocked(r.SourceID); s != nil {
		p.keepLocked(s, r)
	}
}

// ofLocked is what is held of a source, nil if that is nothing and there is no
// room for one more.
func (p *rejections) ofLocked(id eventhook.SourceID) *sourceRejections {
	s := p.sources[id]
	if s != nil || len(p.sources) == rejectingSources {
		return s
	}
	if p.sources == nil {
		p.sources = map[eventhook.SourceID]*sourceRejections{}
	}
	s = &sourceRejections{counts: map[string]eventhook.RejectionCount{}}
	p.sources[id] = s
	return s
}

// keepLocked gives a rejection a place: a free one, or that of the source's
// oldest. A source without any finds none when the others have taken all.
func (p *rejections) keepLocked(s *sourceRejections, r eventhook.Rejection) {
	if len(s.last) < rejectionsOfSource && p.kept < rejectionsOfAll {
		p.kept++
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
	if !ok && len(s.counts) >= rejectionReasons-1 {
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

// take empties p and returns what it held.
func (p *rejections) take() map[eventhook.SourceID]*sourceRejections {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.sources
	p.sources, p.kept = nil, 0
	return taken
}

// putBack takes what could not be written in again, as older than what has
// come since, within the same bounds.
func (p *rejections) putBack(taken map[eventhook.SourceID]*sourceRejections) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, old := range taken {
		s := p.ofLocked(id)
		if s == nil {
			continue
		}
		for _, c := range old.counts {
			s.add(c)
		}
		newer := s.last
		s.last, p.kept = nil, p.kept-len(newer)
		for _, r := range slices.Concat(old.last, newer) {
			p.keepLocked(s, r)
		}
	}
}

// flush writes what is held, in one act, and holds it again if that fails.
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
		p.putBack(taken)
	}
	return err
}

const (
	recordInterval = time.Second
	recordTimeout  = 5 * time.Second
)

// RecordRejections records every second what sources have refused, until ctx
// ends, and then what is left: end it after the last request. A write that has
// begun is not cut off. What cannot be written is tried again; if it was
// written and the answer was lost, its counts are added twice. Without it what
// was refused is forgotten. Run it once.
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
			h.log.Warn("rejected requests could not be recorded", "trying again", running, "error", err)
		}
		cancel()
	}
	return nil
}

// reject counts a request that a source refused, and keeps it among the last.
// Without a source nobody is told; end is then nil.
func (h *Handler) reject(r *http.Request, end *endpoint, no *refused) {
	if end == nil || !no.outcome.isCounted() {
		return
	}
	now, reason := h.now().Truncate(time.Millisecond), no.word() // as exact as an id
	h.rejected.count(eventhook.RejectionCount{SourceID: end.source.ID, Reason: reason, Count: 1, FirstAt: now, LastAt: now})
	if !no.outcome.isListed() {
		return
	}
	rejection := eventhook.Rejection{
		ID:            eventhook.NewID[eventhook.Rejection](now),
		SourceID:      end.source.ID,
		Outcome:       string(no.outcome),
		Reason:        reason,
		Detail:        eventhook.SanitizeLabel(no.detail),
		Method:        eventhook.SanitizeLabel(r.Method),
		ClientAddress: clients.Text(h.Sender(r)),
		HeaderNames:   headerNames(r.Header),
		BodySize:      max(r.ContentLength, eventhook.UnknownBodySize),
	}
	if no.bodySHA256 != nil {
		rejection.BodySize, rejection.BodySHA256 = int64(no.bodySize), no.bodySHA256
	}
	h.rejected.keep(rejection)
}

// word is the reason in one word.
func (no *refused) word() string {
	if no.outcome == OutcomeUnverified {
		return no.reason
	}
	return string(no.outcome)
}

// having notes the whole body of a refused request, if anybody will be told of
// it: hashing is not for floods.
func (no *refused) having(body []byte) *refused {
	if no.outcome.isListed() {
		sum := sha256.Sum256(body)
		no.bodySize, no.bodySHA256 = len(body), sum[:]
	}
	return no
}

// headerNames are the first names of a header in their order, each cut to a
// bearable length. It sorts no more than it returns: a request may have tens
// of thousands.
func headerNames(header http.Header) []string {
	const most, longest = 64, 100
	names := make([]string, 0, min(len(header), most)+1)
	for name := range header {
		if len(names) == most && name >= names[most-1] {
			continue
		}
		i, _ := slices.BinarySearch(names, name)
		names = slices.Insert(names, i, name)
		names = names[:min(len(names), most)]
	}
	for i, name := range names {
		const enough = longest + utf8.UTFMax
		if len(name) > enough {
			name = strings.Clone(name[:enough])
		}
		names[i] = eventhook.Truncate(eventhook.SanitizeText(name), longest)
	}
	return names
}
