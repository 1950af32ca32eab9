package pgembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is a user of the system. The zero account is root.
type account struct {
	uid, gid uint32
	name     string
}

// ownerOf returns the owner of path. It does not follow symbolic links.
func ownerOf(path string) (account, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return account{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, fmt.Errorf("%s: owner unknown", path)
	}
	return account{uid: st.Uid, gid: st.Gid, name: nameOf(st.Uid)}, nil
}

func nameOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// runner returns the user that PostgreSQL runs as for a cluster owned by a. An ordinary user
// can run only clusters of that user. PostgreSQL refuses to run as root. If this process is
// root, PostgreSQL runs as the owner of the cluster, or as "postgres" or "nobody" if root
// owns the cluster.
func (a account) runner() (account, error) {
	me := uint32(os.Geteuid())
	if me != 0 {
		if a.uid != me && a != (account{}) {
			return account{}, fmt.Errorf("it belongs to user %s; start the gateway as that user", a.name)
		}
		return account{uid: me, gid: uint32(os.Getegid()), name: nameOf(me)}, nil
	}
	if a.uid != 0 {
		return a, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := lookup(name); err == nil {
			return u, nil
		}
	}
	return account{}, errors.New(
		"PostgreSQL does not run as root, and there is no user postgres or nobody; start the gateway as another user")
}

func lookup(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, err
	}
	return account{uid: uint32(uid), gid: uint32(gid), name: name}, nil
}

// credential returns the credential for processes of a, or nil if a is the user of this
// process.
func (a account) credential() *syscall.Credential {
	if int(a.uid) == os.Geteuid() {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// chown makes a the owner of path and of all files in it.
func (a account) chown(path string) error {
	if a.credential() == nil {
		return nil
	}
	return filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(a.uid), int(a.gid)) //nolint:gosec // only folders that this package created
	})
}

// canEnter reports whether a may enter dir and all of its parent folders.
func (a account) canEnter(dir string) bool {
	if a.credential() == nil {
		return true
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // makeHome will create it with the permissions that are needed
		case err != nil || !a.mayPass(info):
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (a account) mayPass(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch {
	case st.Uid == a.uid:
		return info.Mode()&0o100 != 0
	case st.Gid == a.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}
