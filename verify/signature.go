package verify

import (
	"context"
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

// maxCandidates bounds how many signatures of one request are looked at.
const maxCandidates = 16

// signatureVerifier is what most schemes have in common: a header, or a field
// of the body, carries signatures of a message. The checker knows the
// algorithm and the secrets.
type signatureVerifier struct {
	*outline
	checker checker
}

// outline is how requests are signed, but for the secrets. Sources of one
// provider share it, so that it is at hand in the processor's caches whichever
// of them is asked for: it must not be changed.
type outline struct {
	headers  []string  // canonical
	path     fieldPath // in the body, instead
	items    fieldPath // in the body: the objects that are signed each for itself
	inJSON   fieldPath // in the JSON object that the header holds in base64
	fields   *fieldSet // those of the body that are looked up; nil: none
	pathIn   alternatives
	pins     []pin  // of the body
	list     string // separates several signatures; empty: there is one
	key      string // names the signature where the list has names
	prefix   string
	encoding encoding
	require  []requirement
	reserved *pattern.Pattern // what a handshake signs and no webhook is; nil: nothing
	stamp    *stampRule       // nil: the message has no timestamp
	message  message
	needView bool // the body must be looked into

	missing, prefixErr, encodingErr, tooMany, noItem *Error
}

// checker compares the candidates in w with the message: before, body, after.
type checker interface {
	sizes() (least, most int) // of a signature in bytes
	// work is the most that check can cost for a body of bytes and a number of
	// signatures, in units.
	work(bodySize, signatures int) int
	check(ctx context.Context, w *workspace, r *Request) *Error
}

// requirement is a header that must be there with one value.
type requirement struct {
	name, value    string
	missing, other *Error
}

var signatureFields = []string{"encoding", "algorithm", "signed", "reserved", "require_headers"}

// newSignature is for a config that is valid and has its defaults.
func newSignature(c Config, check checker) *signatureVerifier {
	return &signatureVerifier{outlineOf(c), check}
}

// adapt changes the outline for this verifier alone.
func (v *signatureVerifier) adapt(change func(*outline)) {
	own := *v.outline
	change(&own)
	v.outline = &own
}

// outlines are those in use, by the config that they are made of.
var outlines, _ = lru.New[string, *outline](keptOutlines)

const keptOutlines = 1000

func outlineOf(c Config) *outline {
	c.Secrets, c.PublicKeys = nil, nil
	key, err := json.Marshal(c)
	if err != nil {
		return newOutline(c)
	}
	o, ok := outlines.Get(string(key))
	if !ok {
		o = newOutline(c)
		outlines.Add(string(key), o)
	}
	return o
}

func newOutline(c Config) *outline {
	m, _ := parseMessage(c.Signed)
	if c.TimestampHeader != "" && !m.has(timestamp) {
		m.demandListed(c.TimestampHeader) // that is how it is signed
	}
	place := c.Header
	v := &outline{
		headers: canonical(append([]string{c.Header}, c.AlsoHeaders...)),
		list:    c.Separator, key: c.SignatureKey, prefix: c.Prefix, encoding: encodings[c.Encoding],
		stamp: newStampRule(c), message: m, inJSON: parseFieldPath(c.HeaderJSON),
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
		v.reserved, _ = pattern.Compile(c.Reserved, reservedLimits) // has been validated
	}
	if m.has(field) {
		if v.fields == nil {
			v.fields = newFieldSet()
		}
		v.message.locate(v.fields)
	}
	v.pin(c)
	v.needView = v.fields != nil
	expected := c.Prefix
	if c.SignatureKey != "" {
		expected = c.SignatureKey + "="
	}
	v.prefixErr = refusef(ReasonPrefix, "no signature in %s stands behind %s", place, expected)
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

// Verify looks at the signature first and at the time second, so that
// ReasonTimestamp always means a request that the source did sign: a replay,
// a long delay or a wrong clock, but no forgery.
func (v *signatureVerifier) Verify(ctx context.Context, r *Request) error {
	return orNil(v.verify(ctx, r))
}

func (v *signatureVerifier) verify(ctx context.Context, r *Request) *Error {
	for i := range v.require {
		q := &v.require[i]
		switch values := r.Header[q.name]; {
		case len(values) == 0:
			return q.missing
		case len(values) > 1 || values[0] != q.value:
			return q.other
		}
	}
	if v.path == nil && !v.present(r) {
		return v.missing
	}
	var view object
	if v.needView {
		var err *Error
		if view, err = viewOf(r); err != nil {
			return err
		}
	}
	w := workspaces.Get().(*workspace) //nolint:forcetypeassert // the pool holds nothing else
	defer w.free()
	if v.items == nil {
		return v.one(ctx, w, r, view)
	}
	n, err := view.each(v.items[0], func(item object) *Error { return v.one(ctx, w, r, item) })
	if err == nil && n == 0 {
		err = v.noItem
	}
	return err
}

// CPUCost counts the view, the items and the checker's work.
func (v *signatureVerifier) CPUCost(r *Request) int {
	size := len(r.Body)
	signatures := 1
	if _, isMAC := v.checker.(*macChecker); !isMAC { // which computes the same for any number
		signatures = v.signatures(r)
	}
	work := v.checker.work(size, signatures)
	if v.needView {
		work += viewWork(r)
	}
	if v.items != nil {
		const least = 64 // bytes of an item
		work += v.checker.work(hashedUnit, 1) * min(maxItems, size/least) / macsUnit
	}
	return work
}

// signatures is how many the request may hold, more or less.
func (v *signatureVerifier) signatures(r *Request) (n int) {
	if v.path != nil {
		return 1
	}
	for _, name := range v.headers {
		for _, value := range r.Header[name] {
			if n++; v.list != "" {
				n += strings.Count(value, v.list)
			}
		}
	}
	return n
}

// one verifies one message.
func (v *signatureVerifier) one(ctx context.Context, w *workspace, r *Request, view object) *Error {
	w.reset(v.checker.sizes())
	stamp, times, err := v.collect(w, r, view)
	if err != nil {
		return err
	}
	var at moment
	inBody := v.stamp != nil && v.stamp.jsonPath != ""
	if v.stamp != nil && !inBody {
		if at, stamp, err = v.stamp.read(r, stamp, times); err != nil {
			return err
		}
	}
	switch {
	case w.proposed > maxCandidates:
		return v.tooMany
	case len(w.candidates) == 0 && w.prefixed:
		return v.encodingErr
	case len(w.candidates) == 0:
		return v.prefixErr
	}
	if err := v.pinned(w); err != nil {
		return err
	}
	if err := v.message.compose(w, r, stamp); err != nil {
		return err
	}
	if err := v.checker.check(ctx, w, r); err != nil {
		return err
	}
	if v.reserved != nil {
		if err := v.checkReserved(ctx, w.message(r)); err != nil {
			return err
		}
	}
	if inBody {
		if at, err = v.stamp.inBody(r); err != nil {
			return err
		}
	}
	if v.stamp != nil {
		return v.stamp.judge(at, r.At)
	}
	return nil
}

// collect finds the fields of the body, and gathers the signatures, and the
// timestamp where they stand beside it in one list.
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

// readList reads "prefix signature, prefix signature". Parts with another
// prefix are ignored, so that a weaker version beside the known one helps
// nobody.
func (v *signatureVerifier) readList(w *workspace, value string, from int) {
	if v.list == "" {
		v.readItem(w, value, from)
		return
	}
	for item := range strings.SplitSeq(value, v.list) {
		if !v.readItem(w, trim(item), from) {
			return
		}
	}
}

// readItem reports whether there is room for more.
func (v *signatureVerifier) readItem(w *workspace, item string, from int) bool {
	text, ok := strings.CutPrefix(item, v.prefix)
	ok = ok && text != ""
	if v.path != nil && !v.encoding.isCanonical(text) {
		text = "" // a signature in the body may be the idempotency key: it is written in one way only
	}
	return w.propose(text, ok, v.encoding, from)
}

// unwrap is the signature in a header like eBay's: base64 of {"signature": …}.
func (v *signatureVerifier) unwrap(value string) string {
	const most = 4 << 10
	if len(value) > most {
		return ""
	}
	raw, err := strictBase64.DecodeString(value)
	if err != nil || strictBase64.EncodedLen(len(raw)) != len(value) || !json.Valid(raw) {
		return ""
	}
	text, _ := object{gjson.ParseBytes(raw)}.text(v.inJSON) // one that is there twice is none
	return text
}

// readNamed reads "t=1700000000,v1=…,v1=…". Parts with other names are ignored.
func (v *signatureVerifier) readNamed(w *workspace, value, stamp string, times int) (string, int) {
	for item := range strings.SplitSeq(value, v.list) {
		switch key, text, _ := strings.Cut(trim(item), "="); key {
		case v.stamp.key:
			stamp, times = text, times+1
		case v.key:
			w.propose(text, true, v.encoding, 0)
		}
	}
	return stamp, times
}

// Limits of reserved. A message that takes more steps is refused: it cannot be told from a handshake's.
var reservedLimits = pattern.Limits{Bytes: 1000, Instructions: 500, Memory: 32 << 10}

const reservedSteps = 5_000_000 // about 50 ms

// checkReserved refuses a message that is reserved.
func (v *signatureVerifier) checkReserved(ctx context.Context, message []byte) *Error {
	m := meter.New(ctx, reservedSteps, nil)
	text := unsafe.String(unsafe.SliceData(message), len(message)) //nolint:gosec // nobody changes it meanwhile
	switch matched := v.reserved.Match(m, text); {
	case m.Err() != nil:
		return errReservedWork
	case matched:
		return errReserved
	}
	return nil
}

var errReservedWork = &Error{ReasonMalformed, "matching reserved against this message takes too many steps"}

var errReserved = &Error{ReasonMalformed, "this is what the provider's handshake has signed, and no webhook"}

// signatureDefaults fills in what is empty.
func (c Config) signatureDefaults() Config {
	set := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	set(&c.Encoding, "hex")
	set(&c.Separator, ",")
	set(&c.Signed, "{body}")
	return c
}

// validateSignature checks what all schemes with signatures have in common.
func validateSignature(c Config, f *eventhook.Faults) message {
	if c.Path == "" {
		validateHeader(c.Header, f)
	}
	for _, name := range c.AlsoHeaders {
		if !IsToken(name) {
			f.Add("also_headers", "%q is not a header name", name)
		}
	}
	const most = 100
	if len(c.AlsoHeaders) > most {
		f.Add("also_headers", "%d of them, want at most %d", len(c.AlsoHeaders), most)
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
