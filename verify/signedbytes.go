package verify

import (
	"crypto/sha256"
	"hash"
	neturl "net/url"
)

// SignedHash is the SHA-256 of what a request that v has verified has signed: of
// the message that the signature covers, with the timestamp or the URL where
// they are signed. Headers that are not signed do not change it, nor does the
// order of form fields that are signed in the order of their names. Of a
// request that is not signed, such as one with a token, it is the hash of the
// body.
func SignedHash(v Verifier, r *Request) [sha256.Size]byte {
	h := sha256.New()
	if s, ok := v.(signer); !ok || s.writeSigned(h, r) != nil {
		return sha256.Sum256(r.Body)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// signer is a Verifier of signatures over a message. writeSigned writes the
// message of a request; it fails if the request has none.
type signer interface {
	writeSigned(h hash.Hash, r *Request) *Error
}

var _, _, _, _ signer = (*signatureVerifier)(nil), (*standardVerifier)(nil), (*urlFormVerifier)(nil), (*snsVerifier)(nil)

func (v *signatureVerifier) writeSigned(h hash.Hash, r *Request) *Error {
	var view object
	if v.needView {
		var err *Error
		if view, err = viewOf(r); err != nil {
			return err
		}
	}
	w := workspaces.Get().(*workspace) //nolint:forcetypeassert // the pool holds nothing else
	defer w.free()
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

// writeMessage writes what compose has put together.
func (w *workspace) writeMessage(h hash.Hash, r *Request) {
	_, _ = h.Write(w.before)
	if w.body {
		_, _ = h.Write(r.Body)
	}
	_, _ = h.Write(w.after)
}

// writeSigned takes the family that Verify takes; all its ways sign the same.
func (v *standardVerifier) writeSigned(h hash.Hash, r *Request) *Error {
	for i := range v.families {
		if f := &v.families[i]; len(r.Header[f.header]) > 0 {
			return f.any[0].writeSigned(h, r)
		}
	}
	return v.missing
}

// writeSigned takes the URL as it is registered, whichever port was signed.
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
	plain.Header = nil // as Verify reads it
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
