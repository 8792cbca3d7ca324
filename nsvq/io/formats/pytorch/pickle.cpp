#include "nsvq/io/formats/pytorch/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "pickles are little-endian");

// Few bytes can make many or large values; no file of weights has so many.
constexpr size_t kMostValues = 2'000'000;  // and memo entries
constexpr size_t kMostNameBytes = 1000;    // of a class or a function

/// The machine that a pickle is a program of: it pushes values on a stack and takes them from it.
/// Opcodes are named as in Python's pickletools.
class PickleMachine {
 public:
  explicit PickleMachine(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Pickle run() {
    for (int opcode = byte(); opcode != '.'; opcode = byte()) {
      if (!scalar(opcode) && !text(opcode) && !collection(opcode) && !object(opcode) &&
          !memory(opcode)) {
        throw UserError("the pickle has the opcode {:#04x}, which is not read", opcode);
      }
    }
    pickle_.root = pop();
    pickle_.bytes = at_;
    return std::move(pickle_);
  }

 private:
  using Parts = std::vector<size_t>;

  // Bytes.

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_) throw UserError("the pickle is cut off");
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  int byte() { return std::to_integer<int>(take(1)[0]); }
  /// A number of up to 8 bytes without a sign.
  uint64_t number(size_t width) {
    uint64_t value = 0;
    std::memcpy(&value, take(width).data(), width);
    return value;
  }
  std::string characters(uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), std::byte{'\n'});
    auto text = characters(static_cast<uint64_t>(end - rest.begin()));
    take(1);
    return text;
  }

  // The stack.

  PickleValue& value(size_t index) { return pickle_.values[index]; }
  void push(size_t index) { stack_.push_back(index); }
  void push(PickleValue&& value) {
    if (pickle_.values.size() == kMostValues) {
      throw UserError("the pickle has more than {} values", kMostValues);
    }
    pickle_.values.push_back(std::move(value));
    stack_.push_back(pickle_.values.size() - 1);
  }
  void push_number(int64_t value) { push({PickleKind::number, value, "", {}}); }
  void push_other() { push(PickleValue{}); }
  size_t top() const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) throw UserError("the pickle takes more values than it has");
    return stack_.back();
  }
  size_t pop() {
    const size_t index = top();
    stack_.pop_back();
    return index;
  }
  /// The last values, in their order.
  Parts pop_many(size_t count) {
    Parts parts(count);
    for (size_t i = count; i > 0; --i) parts[i - 1] = pop();
    return parts;
  }
  /// The values above the last mark, which is removed.
  Parts pop_to_mark() {
    if (marks_.empty()) throw UserError("the pickle has no mark where it needs one");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    Parts parts(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return parts;
  }

  // Opcodes, by what they push; false for one of another group.

  bool scalar(int opcode) {
    switch (opcode) {
      case 'N':  // NONE
        push_other();
        return true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push_number(opcode == 0x88 ? 1 : 0);
        return true;
      case 'J':  // BININT
        push_number(static_cast<int32_t>(number(4)));
        return true;
      case 'K':  // BININT1
      case 'M':  // BININT2
        push_number(static_cast<int64_t>(number(opcode == 'K' ? 1 : 2)));
        return true;
      case 'G':  // BINFLOAT
        take(8);
        push_other();
        return true;
      case 0x8a:  // LONG1
      case 0x8b:  // LONG4
        push_long(number(opcode == 0x8a ? 1 : 4));
        return true;
      default:
        return false;
    }
  }

  /// A whole number in two's complement. One of more than 64 bits becomes a value of another kind.
  void push_long(uint64_t width) {
    if (width > 8) {
      take(width);
      return push_other();
    }
    if (width == 0) return push_number(0);
    const auto unused = static_cast<int>(64 - 8 * width);
    push_number(static_cast<int64_t>(number(width) << unused) >> unused);
  }

  bool text(int opcode) {
    switch (opcode) {
      case 'X':   // BINUNICODE
      case 0x8c:  // SHORT_BINUNICODE
      case 0x8d:  // BINUNICODE8
        push({PickleKind::text,
              0,
              characters(number(opcode == 'X'    ? 4
                                : opcode == 0x8c ? 1
                                                 : 8)),
              {}});
        return true;
      case 'T':  // BINSTRING, of Python 2
      case 'U':  // SHORT_BINSTRING
        push({PickleKind::text, 0, characters(number(opcode == 'T' ? 4 : 1)), {}});
        return true;
      case 'B':   // BINBYTES
      case 'C':   // SHORT_BINBYTES
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        take(number(opcode == 'B' ? 4 : opcode == 'C' ? 1 : 8));
        push_other();
        return true;
      default:
        return false;
    }
  }

  bool collection(int opcode) {
    switch (opcode) {
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return true;
      case ']':   // EMPTY_LIST
      case ')':   // EMPTY_TUPLE
      case 0x8f:  // EMPTY_SET
        push({PickleKind::sequence, 0, "", {}});
        return true;
      case '}':  // EMPTY_DICT
        push({PickleKind::dict, 0, "", {}});
        return true;
      case 't':   // TUPLE
      case 0x91:  // FROZENSET
        push({PickleKind::sequence, 0, "", pop_to_mark()});
        return true;
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        push({PickleKind::sequence, 0, "", pop_many(static_cast<size_t>(opcode - 0x84))});
        return true;
      case 'a':  // APPEND
        add(pop_many(1), PickleKind::sequence);
        return true;
      case 'e':   // APPENDS
      case 0x90:  // ADDITEMS
        add(pop_to_mark(), PickleKind::sequence);
        return true;
      case 's':  // SETITEM
        add(pop_many(2), PickleKind::dict);
        return true;
      case 'u':  // SETITEMS
        add(pop_to_mark(), PickleKind::dict);
        return true;
      default:
        return false;
    }
  }

  /// Adds parts to the collection below them. An object that gets items (OrderedDict, defaultdict)
  /// counts as the collection.
  void add(const Parts& parts, PickleKind kind) {
    auto& to = value(top());
    if (kind == PickleKind::dict && parts.size() % 2 != 0) {
      throw UserError("the pickle has a key without a value");
    }
    if (to.kind == PickleKind::call) to = {kind, 0, "", {}};
    if (to.kind != kind) throw UserError("the pickle adds to what is no collection");
    to.parts.insert(to.parts.end(), parts.begin(), parts.end());
  }

  void push_global(const std::string& module, const std::string& name) {
    if (module.size() + name.size() > kMostNameBytes) {
      throw UserError("the pickle has a name of more than {} bytes", kMostNameBytes);
    }
    push({PickleKind::global, 0, module + "." + name, {}});
  }

  bool object(int opcode) {
    switch (opcode) {
      case 'c': {  // GLOBAL
        const auto module = line();
        push_global(module, line());
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const auto parts = pop_many(2);
        push_global(value(parts[0]).text, value(parts[1]).text);
        return true;
      }
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        push({PickleKind::call, 0, "", pop_many(2)});
        return true;
      case 0x92:  // NEWOBJ_EX, with named arguments last
        pop();
        push({PickleKind::call, 0, "", pop_many(2)});
        return true;
      case 'b': {  // BUILD
        const auto state = pop();
        auto& to = value(top());
        if (to.kind == PickleKind::call) to.parts.push_back(state);
        return true;
      }
      case 'Q':  // BINPERSID
        push({PickleKind::outside, 0, "", pop_many(1)});
        return true;
      default:
        return false;
    }
  }

  bool memory(int opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        check_protocol(byte());
        return true;
      case 0x95:  // FRAME
        take(8);
        return true;
      case 'q':  // BINPUT
      case 'r':  // LONG_BINPUT
        remember(number(opcode == 'q' ? 1 : 4));
        return true;
      case 0x94:  // MEMOIZE
        remember(memo_.size());
        return true;
      case 'h':  // BINGET
      case 'j':  // LONG_BINGET
        push_remembered(number(opcode == 'h' ? 1 : 4));
        return true;
      case '0':  // POP
        pop();
        return true;
      case '1':  // POP_MARK
        pop_to_mark();
        return true;
      case '2':  // DUP
        push(top());
        return true;
      default:
        return false;
    }
  }

  static void check_protocol(int protocol) {
    if (protocol < 2 || protocol > 5) {
      throw UserError("the pickle is of protocol {}, which is not read", protocol);
    }
  }
  void remember(uint64_t entry) {
    if (memo_.size() == kMostValues) {
      throw UserError("the pickle remembers more than {} values", kMostValues);
    }
    memo_[entry] = top();
  }
  void push_remembered(uint64_t entry) {
    const auto found = memo_.find(entry);
    if (found == memo_.end()) throw UserError("the pickle names a value that it does not have");
    push(found->second);
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  Pickle pickle_;
  Parts stack_, marks_;
  std::map<uint64_t, size_t> memo_;
};

}  // namespace

Pickle parse_pickle(std::span<const std::byte> bytes) { return PickleMachine(bytes).run(); }

}  // namespace nsvq
