package verify

import (
	"crypto/sha256"
	"hash"
	neturl "net/url"
)

// SignedHash returns the SHA-256 of the signed text of a request that v has
// verified, including the timestamp or the URL if these are signed. Unsigned
// headers do not change it, and neither does the order of form fields if the
// scheme sorts them. For a request without a signature, such as one with a token,
// SignedHash returns the hash of the body.
func SignedHash(v Verifier, r *Request) [sha256.Size]byte {
	h := sha256.New()
	if s, ok := v.(signedTextWriter); !ok || s.writeSigned(h, r) != nil {
		return sha256.Sum256(r.Body)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// signedTextWriter is a Verifier of signatures. writeSigned writes the signed text of a
// request to h, and fails if the request has none.
type signedTextWriter interface {
	writeSigned(h hash.Hash, r *Request) *Error
}

var _, _, _, _ signedTextWriter = (*signatureVerifier)(nil), (*standardVerifier)(nil), (*urlFormVerifier)(nil), (*snsVerifier)(nil)

func (v *signatureVerifier) writeSigned(h hash.Hash, r *Request) *Error {
	var view object
	if v.needView {
		var err *Error
		if view, err = viewOf(r); err != nil {
			return err
		}
	}
	w := workspacePool.Get().(*workspace) //nolint:forcetypeassert // the pool contains only workspaces
	defer w.release()
	write := func(item object) *Error {
		w.reset(v.checker.sizes())
		stamp, times, err := v.collect(w, r, item)
		if err == nil && v.stamp != nil && v.stamp.jsonPath == "" {
			_, stamp, err = v.stamp.read(r, stamp, times)
		}
		if err == nil {
			err = v.message.compose(w, r, stamp)
		}
		if err == nil {
			w.writeMessage(h, r)
		}
		return err
	}
	if v.items == nil {
		return write(view)
	}
	_, err := view.each(v.items[0], write)
	return err
}

// writeMessage writes the message that compose wrote to w.
func (w *workspace) writeMessage(h hash.Hash, r *Request) {
	_, _ = h.Write(w.before)
	if w.hasBody {
		_, _ = h.Write(r.Body)
	}
	_, _ = h.Write(w.after)
}

// writeSigned uses the headers that Verify uses. All signatures of these headers
// cover the same text.
func (v *standardVerifier) writeSigned(h hash.Hash, r *Request) *Error {
	for i := range v.families {
		if f := &v.families[i]; len(r.Header[f.header]) > 0 {
			return f.verifiers[0].writeSigned(h, r)
		}
	}
	return v.missing
}

// writeSigned uses the registered URL, even if a URL with another port was signed.
func (v *urlFormVerifier) writeSigned(h hash.Hash, r *Request) *Error {
	u, err := neturl.Parse(r.URL)
	if err != nil || r.URL == "" {
		return errNoURL
	}
	form, bad := signedForm(u, r)
	if bad == nil {
		_, _ = h.Write([]byte(r.URL + form))
	}
	return bad
}

func (v *snsVerifier) writeSigned(h hash.Hash, r *Request) *Error {
	plain := *r
	plain.Header = nil // as in Verify
	view, err := viewOf(&plain)
	if err != nil {
		return err
	}
	get := func(name string) string {
		text, bad := view.text(fieldPath{{name}})
		if bad != nil {
			err = bad
		}
		return text
	}
	message, bad := snsMessage(get)
	if bad != nil || err != nil {
		return errSNSType
	}
	_, _ = h.Write(message)
	return nil
}
