// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import "slices"

// slab keeps the rings of one shard in chunks without pointers. A block is exactly as
// long as its ring. There is a list of free blocks for each length; the first word of a
// free block is the next one. Once more than a small part of the slab is free, the
// emptiest chunk is cleared.
type slab struct {
	chunks []chunk
	lists  []freeList // sorted by size
	cur    int        // chunk with room after its mark
	total  int        // words in chunks
	free   int        // words in lists
}

type chunk struct {
	words []uint64
	mark  int // words handed out so far
	live  int // words in blocks that are in use
}

type freeList struct {
	size int
	head block // 0 if there is none
}

// block is the place of a ring: chunk number + 1, and offset. 0 means none.
type block uint64

// A block has 21 bits for the offset, enough for any chunk, and 22 bits for the chunk,
// enough for 256 GB.
const (
	offsetBits = 21
	blockBits  = 43
	blockMask  = 1<<blockBits - 1
)

func blockAt(chunk, offset int) block { return block(chunk+1)<<offsetBits | block(offset) }

func (b block) chunk() int  { return int(b>>offsetBits) - 1 }
func (b block) offset() int { return int(b & (1<<offsetBits - 1)) }

const (
	minChunk = 256  // words
	maxChunk = 8192 // words, unless a ring is longer
	slack    = 64   // 1/slack of the slab may be free
	growth   = 48   // a chunk is 1/growth of the slab
)

// words returns the block's memory.
func (s *slab) words(b block, size int) []uint64 {
	if b == 0 {
		return nil
	}
	at := b.offset()
	return s.chunks[b.chunk()].words[at : at+size : at+size]
}

func (s *slab) search(size int) (i int, found bool) {
	return slices.BinarySearchFunc(s.lists, size, func(l freeList, size int) int { return l.size - size })
}

// list returns the list of blocks of size, and adds it if it is missing.
func (s *slab) list(size int) *freeList {
	i, found := s.search(size)
	if !found {
		s.lists = slices.Insert(s.lists, i, freeList{size: size})
	}
	return &s.lists[i]
}

// sparse reports whether so much is free that a chunk should be cleared before another
// one is added.
func (s *slab) sparse() bool { return s.free > minChunk && s.free > s.total/slack }

// alloc returns a block of size words with undefined content.
func (s *slab) alloc(size int) block {
	if i, found := s.search(size); found && s.lists[i].head != 0 {
		l := &s.lists[i]
		b := l.head
		c := &s.chunks[b.chunk()]
		l.head = block(c.words[b.offset()])
		s.free -= size
		c.live += size
		return b
	}
	if s.cur >= len(s.chunks) || len(s.chunks[s.cur].words)-s.chunks[s.cur].mark < size {
		s.extend(size)
	}
	c := &s.chunks[s.cur]
	b := blockAt(s.cur, c.mark)
	c.mark += size
	c.live += size
	return b
}

// extend adds a chunk with room for size words and makes it the current one.
func (s *slab) extend(size int) {
	if s.cur < len(s.chunks) {
		c := &s.chunks[s.cur]
		if rest := len(c.words) - c.mark; rest > 0 {
			s.push(blockAt(s.cur, c.mark), rest)
			c.mark = len(c.words)
		}
	}
	length := min(max(s.total/growth, minChunk), maxChunk) // a whole number of blocks, as most rings of a shard are equally long
	words := slices.Grow([]uint64(nil), (length+size-1)/size*size)
	words = words[:cap(words)]
	s.total += len(words)
	for i := range s.chunks {
		if s.chunks[i].words == nil { // cleared
			s.chunks[i], s.cur = chunk{words: words}, i
			return
		}
	}
	s.cur = len(s.chunks)
	s.chunks = append(s.chunks, chunk{words: words})
}

// push puts a free block on its list.
func (s *slab) push(b block, size int) {
	l := s.list(size)
	s.chunks[b.chunk()].words[b.offset()] = uint64(l.head)
	l.head = b
	s.free += size
}

// release frees a block.
func (s *slab) release(b block, size int) {
	if b == 0 {
		return
	}
	s.chunks[b.chunk()].live -= size
	s.push(b, size)
}

// emptiest returns the chunk with the smallest part in use, or -1 if there is none to
// clear.
func (s *slab) emptiest() int {
	best := -1
	for i := range s.chunks {
		c := &s.chunks[i]
		if i == s.cur || c.words == nil || c.live == len(c.words) {
			continue
		}
		if best < 0 || c.live*len(s.chunks[best].words) < s.chunks[best].live*len(c.words) {
			best = i
		}
	}
	return best
}

// abandon takes the free blocks of chunk i off their lists, so that alloc does not
// return them.
func (s *slab) abandon(i int) {
	for k := range s.lists {
		l := &s.lists[k]
		var kept block
		for b := l.head; b != 0; {
			next := block(s.chunks[b.chunk()].words[b.offset()])
			if b.chunk() == i {
				s.free -= l.size
			} else {
				s.chunks[b.chunk()].words[b.offset()] = uint64(kept)
				kept = b
			}
			b = next
		}
		l.head = kept
	}
	s.lists = slices.DeleteFunc(s.lists, func(l freeList) bool { return l.head == 0 })
}

// drop releases the memory of chunk i, which must be unused.
func (s *slab) drop(i int) {
	s.total -= len(s.chunks[i].words)
	s.chunks[i] = chunk{}
}
