#include "engine/plan/tower_room.h"

#include <map>
#include <utility>

#include "engine/media/tower.h"
#include "engine/plan/layout.h"
#include "graph/arena.h"

namespace sluice {
namespace {

Result<TowerRoom> room_of(const Model& model, ProgramKind kind, const Device& device, Arithmetic arithmetic,
                          uint32_t rows) {
  TRY(Program program, model.record(kind));
  const TowerModel tower{kind, std::move(program), &model.weights_of(kind)};
  TRY(const ValueId result, tower_rows(tower.program));
  TowerRoom room{.kind = kind, .rows = rows};
  TRY(room.lines, Tower::memory(tower, device, arithmetic, rows));
  const StepMaxima maxima{.counts = {{Symbol::media_rows, rows}}};
  for (const NamedValue& input : tower.program.inputs) room.kept += value_bytes(tower.program, maxima, input.value);
  room.kept += value_bytes(tower.program, maxima, result);
  return room;
}

uint64_t tower_bytes(const TowerRoom& room, Domain domain) {
  uint64_t bytes = 0;
  for (const MemoryLine& line : room.lines) bytes += line.domain == domain ? line.bytes : 0;
  return bytes;
}

}  // namespace

uint64_t TowerRoom::bytes(Domain domain) const {
  return tower_bytes(*this, domain) + (domain == Domain::host ? kept : 0);
}

Result<std::vector<TowerRoom>> tower_rooms(const Model& model, const Device& device, Arithmetic arithmetic,
                                           const PictureOptions& pictures) {
  std::vector<TowerRoom> rooms;
  for (const ProgramKind kind : {ProgramKind::vision, ProgramKind::audio}) {
    if (!model.has(kind)) continue;
    TRY(TowerRoom room, room_of(model, kind, device, arithmetic, model.most_rows(kind, pictures)));
    rooms.push_back(std::move(room));
  }
  return rooms;
}

std::vector<MemoryLine> media_memory(std::span<const TowerRoom> rooms, const MediaCounts& counts) {
  const auto count = [&](const TowerRoom& room) {
    return room.kind == ProgramKind::vision ? counts.pictures : counts.sounds;
  };
  std::map<Domain, const TowerRoom*> largest;
  uint64_t kept = 0;
  for (const TowerRoom& room : rooms) {
    if (count(room) == 0) continue;
    kept += count(room) * room.kept;
    for (const MemoryLine& line : room.lines) {
      const TowerRoom*& most = largest[line.domain];
      if (most == nullptr || tower_bytes(*most, line.domain) < tower_bytes(room, line.domain)) most = &room;
    }
  }
  std::vector<MemoryLine> lines;
  for (const auto& [domain, room] : largest)
    for (const MemoryLine& line : room->lines)
      if (line.domain == domain) lines.push_back(line);
  if (kept != 0) lines.push_back({Domain::host, Purpose::staging, kept});
  return lines;
}

}  // namespace sluice
