// SPDX-License-Identifier: Apache-2.0
// Headrace's experimenter actions on the wire: push and pop of tunnels, and a group's memory.
//
// All are ofp_action_experimenter (OpenFlow 1.3.5, 7.2.5) with the experimenter 0x00524143 ("RAC",
// from the range of locally administered OUIs, which IEEE does not assign). After it comes a
// subtype of 16 bits; the operation's file says what follows that.
//
// ovs-ofctl can neither write nor print foreign experimenter actions, but it has
// `note:`, Nicira's action (0x00002320, subtype 8) that carries octets and does nothing. A note
// that begins with the octets 00.52.41.43 is therefore taken for the action whose octets follow,
// and is reported as the note that it came as. `headrace switch push` and `pop` print such notes.
#pragma once

#include <algorithm>

#include "pipeline/operations/forms.h"

namespace headrace::pipeline {

namespace experimenter_subtype {
inline constexpr uint16_t kPushTunnel = 1;
inline constexpr uint16_t kPopTunnel = 2;
inline constexpr uint16_t kSelectMemory = 3;
}  // namespace experimenter_subtype

inline bool all_zero(wire::Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t octet) { return octet == 0; });
}

/// Writes one of Headrace's actions: the headers up to the subtype now, padding and length when it
/// goes out of scope.
class ExperimenterWriter {
 public:
  ExperimenterWriter(wire::Writer& writer, const Action& action, uint16_t subtype)
      : writer_(writer), start_(writer.size()) {
    encode_head(writer, kExperimenterAction, 0);
    if (action.form() == Action::Form::note) {
      writer.u32(kNiciraExperimenter);
      writer.u16(kNoteSubtype);
    }
    writer.u32(kHeadraceExperimenter);
    writer.u16(subtype);
  }
  ~ExperimenterWriter() {
    writer_.pad8(start_);
    writer_.patch16(start_ + 2, writer_.size() - start_);
  }
  ExperimenterWriter(const ExperimenterWriter&) = delete;
  ExperimenterWriter& operator=(const ExperimenterWriter&) = delete;

 private:
  wire::Writer& writer_;
  size_t start_;
};

}  // namespace headrace::pipeline
