package verify

import (
	"cmp"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unsafe"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/pattern"
)

// maxCandidates limits the signatures of a request.
const maxCandidates = 16

// signatureVerifier is the common verifier of most schemes: a header or a field of
// the body contains signatures of a message. The outline has the format of the
// request, the checker has the algorithm and the secrets.
type signatureVerifier struct {
	*outline
	checker checker
}

// outline is the parsed Config without secrets. Sources of one provider share an
// outline, so that it stays in the processor's caches. It is immutable.
type outline struct {
	headers   []string     // canonical
	path      fieldPath    // of the signature in the body, instead of headers
	items     fieldPath    // of the objects in the body that are signed individually
	inJSON    fieldPath    // in the base64-encoded JSON object in the header
	fields    *fieldSet    // the fields of the body that are read; nil: none
	pathIn    alternatives // path in fields
	pins      []pin
	separator string // between several signatures; empty: there is one signature
	key       string // the name of signatures in a list with names, such as v1
	prefix    string
	encoding  encoding
	require   []requirement
	reserved  *pattern.Pattern // matches messages that the handshake signs; nil: none
	stamp     *timestampRule   // nil: the message has no timestamp
	message   message
	needView  bool // the body must be parsed

	missing, prefixErr, encodingErr, tooMany, noItem *Error
}

// checker checks the candidate signatures in a workspace against its message.
type checker interface {
	sizes() (minSize, maxSize int) // of a signature in bytes
	// work returns an upper bound of the CPU cost of check, in units, for the
	// size of the body and the number of signatures.
	work(bodySize, signatures int) int
	check(ctx context.Context, w *workspace, r *Request) (Match, *Error)
	// signature signs the message in w. Only public-key signatures need key.
	signature(w *workspace, r *Request, key crypto.Signer) ([]byte, error)
}

// requirement is a header that must have a certain value.
type requirement struct {
	name, value    string
	missing, other *Error
}

var signatureFields = []string{"encoding", "algorithm", "signed", "reserved", "require_headers"}

// newSignature returns the verifier of a valid Config with defaults.
func newSignature(c Config, check checker) *signatureVerifier {
	return &signatureVerifier{outlineOf(c), check}
}

// adapt changes the outline of this verifier only.
func (v *signatureVerifier) adapt(change func(*outline)) {
	own := *v.outline
	change(&own)
	v.outline = &own
}

// outlineCache has the recently used outlines, by the JSON of their Config.
var outlineCache, _ = lru.New[string, *outline](outlineCacheSize)

const outlineCacheSize = 1000

func outlineOf(c Config) *outline {
	c.Secrets, c.PublicKeys = nil, nil
	key, err := json.Marshal(c)
	if err != nil {
		return newOutline(c)
	}
	o, ok := outlineCache.Get(string(key))
	if !ok {
		o = newOutline(c)
		outlineCache.Add(string(key), o)
	}
	return o
}

func newOutline(c Config) *outline {
	m, _ := parseMessage(c.Signed)
	if c.TimestampHeader != "" && !m.has(timestamp) {
		m.requireListed(c.TimestampHeader) // otherwise the timestamp would not be signed
	}
	place := c.Header
	v := &outline{
		headers:   canonical(append([]string{c.Header}, c.AlsoHeaders...)),
		separator: c.Separator, key: c.SignatureKey, prefix: c.Prefix, encoding: encodings[c.Encoding],
		stamp: newTimestampRule(c), message: m, inJSON: parseFieldPath(c.HeaderJSON),
		missing: missingHeader(c.Header),
	}
	if c.Path != "" {
		place = "the body's " + c.Path
		v.headers, v.path, v.items = nil, parseFieldPath(c.Path), parseFieldPath(c.Items)
		v.fields = newFieldSet()
		v.pathIn = v.fields.addAll(v.path)
		v.missing = refusef(ReasonMissingField, "no %s in the body", c.Path)
	}
	if c.Reserved != "" {
		v.reserved, _ = pattern.Compile(c.Reserved, reservedLimits) // c is valid
	}
	if m.has(field) {
		if v.fields == nil {
			v.fields = newFieldSet()
		}
		v.message.locate(v.fields)
	}
	v.addPins(c)
	v.needView = v.fields != nil
	expected := c.Prefix
	if c.SignatureKey != "" {
		expected = c.SignatureKey + "="
	}
	v.prefixErr = refusef(ReasonPrefix, "no signature in %s has the prefix %s", place, expected)
	if expected == "" {
		v.prefixErr = refusef(ReasonEncoding, "%s is empty", place)
	}
	v.encodingErr = refusef(ReasonEncoding, "no signature in %s has the expected encoding (%s) and length", place, c.Encoding)
	v.tooMany = refusef(ReasonMalformed, "%s holds more than %d signatures", place, maxCandidates)
	v.noItem = refusef(ReasonMissingField, "no %s in the body", c.Items)
	for name, value := range c.RequireHeaders {
		v.require = append(v.require, requirement{name: http.CanonicalHeaderKey(name), value: value,
			missing: missingHeader(name), other: refusef(ReasonMalformed, "%s is not %s", name, value)})
	}
	slices.SortFunc(v.require, func(a, b requirement) int { return strings.Compare(a.name, b.name) })
	return v
}

// Verify checks the signature before the timestamp's age. So ReasonTimestamp
// always means a request with a valid signature: a replay, a long delay or a wrong
// clock, but not a forgery.
func (v *signatureVerifier) Verify(ctx context.Context, r *Request) error {
	return verdict(v.match(ctx, r))
}

// match returns the secret of the last item of the body, if the items are signed individually.
func (v *signatureVerifier) match(ctx context.Context, r *Request) (Match, *Error) {
	view, err := v.checkRequest(r)
	if err != nil {
		return Match{}, err
	}
	w := workspacePool.Get().(*workspace) //nolint:forcetypeassert // the pool contains only workspaces
	defer w.release()
	if v.items == nil {
		return v.matchMessage(ctx, w, r, view)
	}
	var last Match
	n, err := view.each(v.items[0], func(item object) (err *Error) {
		last, err = v.matchMessage(ctx, w, r, item)
		return err
	})
	if err == nil && n == 0 {
		err = v.noItem
	}
	return last, err
}

// checkRequest checks the headers that must be present, and parses the body if it is needed.
func (v *signatureVerifier) checkRequest(r *Request) (object, *Error) {
	for i := range v.require {
		q := &v.require[i]
		switch values := r.Header[q.name]; {
		case len(values) == 0:
			return object{}, q.missing
		case len(values) > 1 || values[0] != q.value:
			return object{}, q.other
		}
	}
	if v.path == nil && !v.present(r) {
		return object{}, v.missing
	}
	if !v.needView {
		return object{}, nil
	}
	return viewOf(r)
}

// CPUCost adds the costs of parsing the body, of its items, and of the checker.
func (v *signatureVerifier) CPUCost(r *Request) int {
	size := len(r.Body)
	signatures := 1
	if _, isMAC := v.checker.(*macChecker); !isMAC { // a MAC costs the same for any number of signatures
		signatures = v.signatures(r)
	}
	work := v.checker.work(size, signatures)
	if v.needView {
		work += viewWork(r)
	}
	if v.items != nil {
		const minItemSize = 64 // bytes
		work += v.checker.work(hashedUnit, 1) * min(maxItems, size/minItemSize) / macsUnit
	}
	return work
}

// signatures returns an upper bound of the signatures in the request.
func (v *signatureVerifier) signatures(r *Request) (n int) {
	if v.path != nil {
		return 1
	}
	for _, name := range v.headers {
		for _, value := range r.Header[name] {
			if n++; v.separator != "" {
				n += strings.Count(value, v.separator)
			}
		}
	}
	return n
}

// matchMessage verifies one message: the request, or an item of its body.
func (v *signatureVerifier) matchMessage(ctx context.Context, w *workspace, r *Request, view object) (Match, *Error) {
	at, err := v.prepare(w, r, view)
	if err != nil {
		return Match{}, err
	}
	match, err := v.checker.check(ctx, w, r)
	if err == nil && v.reserved != nil {
		err = v.checkReserved(ctx, w.message(r))
	}
	if err == nil && v.stampInBody() {
		at, err = v.stamp.inBody(r)
	}
	if err == nil && v.stamp != nil {
		err = v.stamp.checkAge(at, r.At)
	}
	return match, err
}

// stampInBody reports whether the timestamp is a field of the body, which is trusted only after the
// signature was checked.
func (v *signatureVerifier) stampInBody() bool { return v.stamp != nil && v.stamp.jsonPath != "" }

// prepare reads the signatures and the timestamp of a message, and composes the signed text in w.
func (v *signatureVerifier) prepare(w *workspace, r *Request, view object) (at unixTime, err *Error) {
	w.reset(v.checker.sizes())
	stamp, times, err := v.collect(w, r, view)
	if err != nil {
		return at, err
	}
	if v.stamp != nil && !v.stampInBody() {
		if at, stamp, err = v.stamp.read(r, stamp, times); err != nil {
			return at, err
		}
	}
	switch {
	case w.proposed > maxCandidates:
		return at, v.tooMany
	case len(w.candidates) == 0 && w.prefixed:
		return at, v.encodingErr
	case len(w.candidates) == 0:
		return at, v.prefixErr
	}
	if err := v.checkPins(w); err != nil {
		return at, err
	}
	return at, v.message.compose(w, r, stamp)
}

// collect reads the fields of the body and the signatures into w. If the timestamp
// is in the list of signatures, collect returns it with the number of its
// occurrences.
func (v *signatureVerifier) collect(w *workspace, r *Request, view object) (stamp string, times int, err *Error) {
	if v.fields != nil {
		w.found = v.fields.scan(w.found, view.json.Raw)
	}
	if v.path != nil {
		text, err := v.pathIn.text(w.found)
		if err == nil && text == "" {
			err = v.missing
		}
		if err == nil {
			v.readList(w, text, 0)
		}
		return "", 0, err
	}
	for i, name := range v.headers {
		for _, value := range r.Header[name] {
			if v.inJSON != nil {
				value = v.unwrap(value)
			}
			if v.key != "" {
				stamp, times = v.readNamed(w, value, stamp, times)
			} else {
				v.readList(w, value, i)
			}
		}
	}
	return stamp, times, nil
}

func (v *signatureVerifier) present(r *Request) bool {
	for _, name := range v.headers {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// readList reads a list of signatures with prefixes. Elements with another prefix
// are ignored, so that a signature of a weaker version is never accepted.
func (v *signatureVerifier) readList(w *workspace, value string, headerIndex int) {
	if v.separator == "" {
		v.readItem(w, value, headerIndex)
		return
	}
	for item := range strings.SplitSeq(value, v.separator) {
		if !v.readItem(w, trim(item), headerIndex) {
			return
		}
	}
}

// readItem proposes one signature. It returns false if there are too many.
func (v *signatureVerifier) readItem(w *workspace, item string, headerIndex int) bool {
	text, ok := strings.CutPrefix(item, v.prefix)
	ok = ok && text != ""
	if v.path != nil && !v.encoding.isCanonical(text) {
		text = "" // a signature in the body can be the idempotency key: see isCanonical
	}
	return w.propose(text, ok, v.encoding, headerIndex)
}

// unwrap returns the signature in a header like eBay's: base64 of {"signature": …}.
// It returns "" if there is none.
func (v *signatureVerifier) unwrap(value string) string {
	const maxSize = 4 << 10
	if len(value) > maxSize {
		return ""
	}
	raw, err := strictBase64.DecodeString(value)
	if err != nil || strictBase64.EncodedLen(len(raw)) != len(value) || !json.Valid(raw) {
		return ""
	}
	text, _ := object{gjson.ParseBytes(raw)}.text(v.inJSON) // a repeated member counts as none
	return text
}

// readNamed reads a list such as "t=1700000000,v1=…,v1=…". Elements with other
// names are ignored. It returns the timestamp and the number of its occurrences.
func (v *signatureVerifier) readNamed(w *workspace, value, stamp string, times int) (string, int) {
	for item := range strings.SplitSeq(value, v.separator) {
		switch key, text, _ := strings.Cut(trim(item), "="); key {
		case v.stamp.key:
			stamp, times = text, times+1
		case v.key:
			w.propose(text, true, v.encoding, 0)
		}
	}
	return stamp, times
}

// reservedLimits limits the regular expression Reserved. reservedSteps limits its
// evaluation: a message that takes more steps is refused, because it could be a
// challenge of the handshake.
var reservedLimits = pattern.Limits{Bytes: 1000, Instructions: 500, Memory: 32 << 10}

const reservedSteps = 5_000_000 // about 50 ms

// checkReserved refuses a message that matches Reserved.
func (v *signatureVerifier) checkReserved(ctx context.Context, message []byte) *Error {
	m := meter.New(ctx, reservedSteps, nil)
	text := unsafe.String(unsafe.SliceData(message), len(message)) //nolint:gosec // the message is not modified during the match
	switch matched := v.reserved.Match(m, text); {
	case m.Err() != nil:
		return errReservedWork
	case matched:
		return errReserved
	}
	return nil
}

var errReservedWork = &Error{ReasonMalformed, "matching reserved against this message takes too many steps"}

var errReserved = &Error{ReasonMalformed, "the signed message is a challenge of the provider's handshake, not a webhook"}

// signatureDefaults returns c with the defaults of all schemes with signatures.
func (c Config) signatureDefaults() Config {
	c.Encoding = cmp.Or(c.Encoding, "hex")
	c.Separator = cmp.Or(c.Separator, ",")
	c.Signed = cmp.Or(c.Signed, "{body}")
	return c
}

// validateSignature checks the fields that all schemes with signatures share.
func validateSignature(c Config, f *eventhook.Faults) message {
	if c.Path == "" {
		validateHeader(c.Header, f)
	}
	for _, name := range c.AlsoHeaders {
		if !IsToken(name) {
			f.Add("also_headers", "%q is not a header name", name)
		}
	}
	if len(c.AlsoHeaders) > maxAlsoHeaders {
		f.Add("also_headers", "%d headers, want at most %d", len(c.AlsoHeaders), maxAlsoHeaders)
	}
	validateChoice("encoding", c.Encoding, f, "hex", "base64", "base64url")
	validateChoice("separator", c.Separator, f, ",", ";", " ", "&")
	if strings.Contains(c.Prefix, c.Separator) || strings.ContainsAny(c.Prefix, " ") || hasControl(c.Prefix) {
		f.Add("prefix", "%q, want no separator, space or control character", c.Prefix)
	}
	for name, value := range c.RequireHeaders {
		if !IsToken(name) || value == "" || hasControl(value) {
			f.Add("require_headers", "%q is not a header name with a value", name)
		}
	}
	if _, err := pattern.Compile(c.Reserved, reservedLimits); err != nil {
		tooLarge, ok := errors.AsType[*pattern.SizeError](err)
		if ok {
			f.Add("reserved", "%s", tooLarge)
		} else {
			f.Add("reserved", "is not a regular expression")
		}
	}
	return validateSigned(c.Signed, f)
}
