import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidRequiredAcksException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The workload of records through Kafka's own client, as a helper program of the line protocol.
 *
 * <p>With the argument "check" it tries the properties on its standard input, a JSON object, and
 * prints what is wrong with them.
 */
public final class RecordsClient {
    private static final Duration ASK = Duration.ofMillis(3000);
    private static final Duration POLL = Duration.ofMillis(300);
    private static final Duration READ = Duration.ofSeconds(60);
    private static final ObjectMapper JSON = new ObjectMapper();

    /** What "hello" said of the run: brokers, properties of producers, topics. */
    private final JsonNode run;
    private final Set<String> created = new HashSet<>();
    private Admin admin;
    private KafkaProducer<String, String> producer;
    private KafkaConsumer<String, String> consumer;
    private List<Integer> assigned = List.of();
    private Map<Integer, Long> positions = new HashMap<>();

    private RecordsClient(JsonNode run) {
        this.run = run;
    }

    public static void main(String[] arguments) throws IOException {
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // Nothing else may print an answer.
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (arguments.length == 1 && arguments[0].equals("check")) {
            problem(JSON.readTree(in)).ifPresent(out::println);
            System.exit(0);
        }
        RecordsClient client = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode told = answer("ok");
            switch (asked.get("type").asText()) {
                case "hello":
                    client = new RecordsClient(asked);
                    problem(asked.get("properties")); // Loads the classes of a producer.
                    told = answer("hello").put("protocol", 1);
                    break;
                case "open":
                case "close":
                    client.close();
                    break;
                default:
                    told = client.invoke(asked.get("f").asText(), asked.get("value"));
            }
            told.set("id", asked.get("id"));
            out.println(JSON.writeValueAsString(told));
        }
        System.exit(0); // Do not wait for records that were not delivered.
    }

    /** Returns what is wrong with the properties of a producer, on one line. */
    private static Optional<String> problem(JsonNode properties) {
        var settings = settings(properties);
        for (String name : settings.stringPropertyNames()) {
            if (!ProducerConfig.configNames().contains(name)) {
                return Optional.of("a producer has no property " + name);
            }
        }
        settings.put("bootstrap.servers", "127.0.0.1:9");
        var strings = new StringSerializer();
        try {
            new KafkaProducer<>(settings, strings, strings).close(Duration.ZERO);
            return Optional.empty();
        } catch (KafkaException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return Optional.of(String.valueOf(cause.getMessage()).replaceAll("\\s+", " "));
        }
    }

    private ObjectNode invoke(String operation, JsonNode value) {
        try {
            switch (operation) {
                case "send":
                    return send(value);
                case "assign":
                    return assign(value);
                case "poll":
                    return poll();
                case "read-all":
                    return readAll();
                default:
                    return answer("fail").put("error", "unknown operation " + operation);
            }
        } catch (KafkaException | TimeoutException error) {
            // The outcome of a send is caught where it is known.
            return answer("fail").put("error", error.toString());
        } catch (InterruptedException error) {
            return answer("info").put("error", error.toString());
        }
    }

    private void close() {
        if (producer != null) {
            producer.close(Duration.ZERO);
        }
        if (consumer != null) {
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
        }
        producer = null;
        consumer = null;
        assigned = List.of();
        positions = new HashMap<>();
    }

    // --- topics -------------------------------------------------------------------------

    private TopicPartition place(int key) {
        int partitions = run.get("partitions").asInt();
        return new TopicPartition(run.get("prefix").asText() + key / partitions, key % partitions);
    }

    private int key(String topic, int partition) {
        String number = topic.substring(run.get("prefix").asText().length());
        return Integer.parseInt(number) * run.get("partitions").asInt() + partition;
    }

    /** Creates a topic unless it exists. */
    private void create(String name) throws InterruptedException, TimeoutException {
        if (created.contains(name)) {
            return;
        }
        var topic = new NewTopic(
                name, run.get("partitions").asInt(), (short) run.get("replicas").asInt());
        var configs = new HashMap<String, String>();
        run.get("topics").properties().forEach(c -> configs.put(c.getKey(), c.getValue().asText()));
        try {
            wait(admin().createTopics(List.of(topic.configs(configs))).all());
        } catch (KafkaException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw error;
            }
        }
        created.add(name);
    }

    private Admin admin() {
        if (admin == null) {
            var settings = connecting();
            settings.put("default.api.timeout.ms", String.valueOf(ASK.toMillis()));
            admin = Admin.create(settings);
        }
        return admin;
    }

    private static <T> T wait(Future<T> future) throws InterruptedException, TimeoutException {
        try {
            return future.get(ASK.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            throw new KafkaException(error.getCause());
        }
    }

    // --- producing ----------------------------------------------------------------------

    /** Sends all records at once, and waits for the outcome of each. */
    private ObjectNode send(JsonNode moves) throws InterruptedException, TimeoutException {
        int key = moves.get(0).get(1).asInt();
        TopicPartition to = place(key);
        create(to.topic());
        long deadline = System.nanoTime() + run.get("patience_ms").asLong() * 1_000_000L;
        var sent = new ArrayList<Future<RecordMetadata>>();
        try {
            if (producer == null) {
                var settings = settings(run.get("properties"));
                settings.put("bootstrap.servers", run.get("servers").asText());
                var strings = new StringSerializer();
                producer = new KafkaProducer<>(settings, strings, strings);
            }
            for (JsonNode move : moves) {
                String value = move.get(2).asText();
                var record = new ProducerRecord<String, String>(
                        to.topic(), to.partition(), null, value);
                sent.add(producer.send(record));
            }
        } catch (KafkaException error) {
            return answer("info").put("error", error.toString());
        }
        ObjectNode told = answer("ok");
        ArrayNode moved = told.putArray("value");
        String first = null;
        int refused = 0;
        for (int place = 0; place < sent.size(); place++) {
            try {
                long left = Math.max(0, deadline - System.nanoTime());
                RecordMetadata done = sent.get(place).get(left, TimeUnit.NANOSECONDS);
                ArrayNode move = moved.addArray().add("send").add(key);
                move.addArray().add(done.offset()).add(moves.get(place).get(2));
            } catch (ExecutionException error) {
                refused += isRefusal(error.getCause()) ? 1 : 0;
                first = first == null ? error.getCause().toString() : first;
            } catch (TimeoutException error) {
                first = first == null ? "no report in time" : first;
            }
        }
        if (first == null) {
            return told;
        }
        return answer(refused == sent.size() ? "fail" : "info").put("error", first);
    }

    /** Whether an error guarantees that the record is in no log; an earlier attempt may be. */
    private static boolean isRefusal(Throwable error) {
        return error instanceof RecordTooLargeException
                || error instanceof InvalidRequiredAcksException;
    }

    // --- consuming ----------------------------------------------------------------------

    private ObjectNode assign(JsonNode keys) throws InterruptedException, TimeoutException {
        var wanted = new ArrayList<Integer>();
        for (JsonNode key : keys) {
            create(place(key.asInt()).topic());
            wanted.add(key.asInt());
        }
        assigned = wanted;
        positions.keySet().retainAll(wanted);
        seek(wanted);
        ObjectNode told = answer("ok");
        told.set("value", keys);
        return told;
    }

    /** Reads the keys from where the last assignment stopped, or from their beginnings. */
    private void seek(Collection<Integer> keys) {
        consumer().assign(keys.stream().map(this::place).toList());
        for (int key : keys) {
            if (positions.containsKey(key)) {
                consumer.seek(place(key), positions.get(key));
            } else {
                consumer.seekToBeginning(List.of(place(key)));
            }
        }
    }

    private KafkaConsumer<String, String> consumer() {
        if (consumer == null) {
            var settings = connecting();
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "none");
            settings.put("fetch.max.wait.ms", "100");
            settings.put("default.api.timeout.ms", String.valueOf(ASK.toMillis()));
            var strings = new StringDeserializer();
            consumer = new KafkaConsumer<>(settings, strings, strings);
        }
        return consumer;
    }

    /** Returns what arrives in a moment. */
    private ObjectNode poll() {
        var found = new TreeMap<Integer, ArrayNode>();
        if (!assigned.isEmpty()) {
            take(found);
        }
        return polled(found);
    }

    private void take(Map<Integer, ArrayNode> found) {
        for (ConsumerRecord<String, String> each : consumer().poll(POLL)) {
            int key = key(each.topic(), each.partition());
            ArrayNode pairs = found.computeIfAbsent(key, k -> JSON.createArrayNode());
            pairs.addArray().add(each.offset()).add(Long.parseLong(each.value()));
            positions.put(key, each.offset() + 1);
        }
    }

    /** Reads all logs from their beginnings to their ends; fails if that takes too long. */
    private ObjectNode readAll() throws InterruptedException, TimeoutException {
        long deadline = System.nanoTime() + READ.toNanos();
        while (true) {
            try {
                return read(deadline);
            } catch (KafkaException | TimeoutException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(200);
            }
        }
    }

    private ObjectNode read(long deadline) throws InterruptedException, TimeoutException {
        var all = new ArrayList<TopicPartition>();
        for (String topic : wait(admin().listTopics().names())) {
            if (topic.startsWith(run.get("prefix").asText())) {
                for (int each = 0; each < run.get("partitions").asInt(); each++) {
                    all.add(new TopicPartition(topic, each));
                }
            }
        }
        var ends = new HashMap<Integer, Long>();
        consumer().endOffsets(all, ASK).forEach(
                (place, end) -> ends.put(key(place.topic(), place.partition()), end));
        var left = new HashSet<Integer>(ends.keySet());
        left.removeIf(key -> ends.get(key) == 0);
        positions = new HashMap<>();
        seek(left);
        var found = new TreeMap<Integer, ArrayNode>();
        while (!left.isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("keys " + left + " were not read to their ends in time");
            }
            take(found);
            left.removeIf(key -> positions.getOrDefault(key, 0L) >= ends.get(key));
        }
        return polled(found);
    }

    private static ObjectNode polled(Map<Integer, ArrayNode> found) {
        ObjectNode told = answer("ok");
        ObjectNode polls = told.putArray("value").addArray().add("poll").addObject();
        found.forEach((key, pairs) -> polls.set(String.valueOf(key), pairs));
        return told;
    }

    // --- settings -----------------------------------------------------------------------

    private static Properties settings(JsonNode given) {
        var settings = new Properties();
        given.properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        return settings;
    }

    /** Settings of clients other than producers. */
    private Properties connecting() {
        var settings = settings(run.get("connecting"));
        settings.put("bootstrap.servers", run.get("servers").asText());
        return settings;
    }

    private static ObjectNode answer(String type) {
        return JSON.createObjectNode().put("type", type);
    }
}
