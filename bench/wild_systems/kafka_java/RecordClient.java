import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's own client as a helper program of the line protocol (docs/line-protocol.md). */
public final class RecordClient {
    private static final int BROKERS = 9092;
    private static final int CONNECT_MS = 2000;
    private static final int SEND_MS = 4000;
    private static final int ASK_MS = 3000;
    private static final int READ_MS = 25000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String topic;
    private final int partitions;
    private final String acks;
    private final Map<String, String> servers = new HashMap<>();
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    private RecordClient(String topic, int partitions, String acks) {
        this.topic = topic;
        this.partitions = partitions;
        this.acks = acks;
    }

    public static void main(String[] arguments) throws IOException {
        var client = new RecordClient(arguments[0], Integer.parseInt(arguments[1]), arguments[2]);
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // Nothing else may print an answer.
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode told = client.carryOut(asked);
            told.set("id", asked.get("id"));
            out.println(JSON.writeValueAsString(told));
        }
        System.exit(0); // Do not wait for what was not delivered.
    }

    private ObjectNode carryOut(JsonNode asked) {
        String name = asked.path("client").asText();
        switch (asked.get("type").asText()) {
            case "hello":
                return answer("hello").put("protocol", 1);
            case "open":
                return open(name, asked.get("address").asText());
            case "close":
                close(name);
                return answer("ok");
            default:
                break;
        }
        if (asked.get("f").asText().equals("send")) {
            JsonNode send = asked.get("value").get(0);
            return send(name, send.get(1).asInt(), send.get(2));
        }
        if (asked.get("f").asText().equals("poll")) {
            return poll(name);
        }
        return answer("fail").put("error", "unknown operation " + asked.get("f").asText());
    }

    /** Opens a client of one broker, unless that refuses connections. */
    private ObjectNode open(String name, String address) {
        close(name);
        try (var socket = new Socket()) {
            socket.connect(new InetSocketAddress(address, BROKERS), CONNECT_MS);
        } catch (IOException error) {
            return answer("fail").put("error", String.valueOf(error.getMessage()));
        }
        servers.put(name, address + ":" + BROKERS);
        return answer("ok");
    }

    private void close(String name) {
        var producer = producers.remove(name);
        if (producer != null) {
            producer.close(Duration.ZERO);
        }
    }

    private ObjectNode send(String name, int partition, JsonNode value) {
        var record = new ProducerRecord<String, String>(topic, partition, null, value.toString());
        try {
            var producer = producers.computeIfAbsent(name, this::producer);
            var done = producer.send(record).get(ASK_MS + SEND_MS, TimeUnit.MILLISECONDS);
            ObjectNode told = answer("ok");
            ArrayNode sent = told.putArray("value").addArray();
            sent.add("send").add(partition).addArray().add(done.offset()).add(value);
            return told;
        } catch (ExecutionException error) {
            boolean refused = error.getCause() instanceof RecordTooLargeException;
            return answer(refused ? "fail" : "info").put("error", error.getCause().toString());
        } catch (InterruptedException | TimeoutException | KafkaException error) {
            return answer("info").put("error", error.toString());
        }
    }

    private KafkaProducer<String, String> producer(String name) {
        var settings = settings(name);
        settings.put("acks", acks);
        settings.put("enable.idempotence", String.valueOf(acks.equals("all")));
        if (!acks.equals("all")) {
            settings.put("retries", "0");
        }
        settings.put("linger.ms", "0");
        settings.put("max.block.ms", String.valueOf(ASK_MS));
        settings.put("request.timeout.ms", String.valueOf(ASK_MS));
        settings.put("delivery.timeout.ms", String.valueOf(SEND_MS));
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Reads all partitions from their beginnings to their ends. */
    private ObjectNode poll(String name) {
        var settings = settings(name);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        long deadline = System.nanoTime() + READ_MS * 1_000_000L;
        var keys = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, keys, new StringDeserializer())) {
            List<TopicPartition> all = IntStream.range(0, partitions)
                    .mapToObj(each -> new TopicPartition(topic, each)).collect(Collectors.toList());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            var ends = consumer.endOffsets(all, Duration.ofMillis(READ_MS));
            ObjectNode told = answer("ok");
            ObjectNode found = told.putArray("value").addArray().add("poll").addObject();
            all.forEach(each -> found.putArray(String.valueOf(each.partition())));
            Set<TopicPartition> left = new HashSet<>(all);
            left.removeIf(each -> ends.get(each) == 0);
            while (!left.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    return answer("fail").put("error", left + " were not read to their ends");
                }
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    var pairs = (ArrayNode) found.get(String.valueOf(each.partition()));
                    pairs.addArray().add(each.offset()).add(JSON.readTree(each.value()));
                }
                left.removeIf(each -> consumer.position(each) >= ends.get(each));
            }
            return told;
        } catch (KafkaException | IOException error) {
            return answer("fail").put("error", error.toString());
        }
    }

    private Properties settings(String name) {
        var settings = new Properties();
        settings.put("bootstrap.servers", servers.get(name));
        settings.put("metadata.max.age.ms", "1000");
        settings.put("reconnect.backoff.max.ms", "500");
        return settings;
    }

    private static ObjectNode answer(String type) {
        return JSON.createObjectNode().put("type", type);
    }
}
